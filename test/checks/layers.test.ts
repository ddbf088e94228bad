import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '../../src')
/** Returns the folders of the table in src/README.md. A row may import from the rows above it. */
function rows(): string[][] {
  const table = readFileSync(join(root, 'README.md'), 'utf8').match(/^\| `.*$/gm) ?? []
  return table.map((line) =>
    (line.split('|')[1]?.match(/[\w.-]+(?=`)/g) ?? []).filter((name) => name !== 'codegen'),
  )
}

t.test('a folder imports only from those above it in the table of src/README.md', async (t) => {
  const layers = rows()
  const layerOf = (path: string) => layers.findIndex((row) => row.includes(path.split('/')[0] ?? ''))
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  )
  t.ok(files.length > 100)
  for (const file of files.filter((name) => !/^(codegen|bin|packaging)\//.test(name))) {
    const imports = readFileSync(join(root, file), 'utf8').matchAll(/(?:from|import\() ?'(\.{1,2}\/[^']+)'/g)
    for (const [, path = ''] of imports) {
      const target = relative(root, join(root, dirname(file), path))
      if (target.startsWith('..')) continue
      const [own, other] = [layerOf(file), layerOf(target)]
      const isSame = target.split('/')[0] === file.split('/')[0]
      const isAssembly = own === other && !file.includes('/')
      t.ok(own >= 0 && other >= 0, `${file} and ${target} are in the table`)
      t.ok(isSame || isAssembly || other < own, `${file} may import ${target}`)
    }
  }
})
