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

/**
 * Returns the files below `folder` that each file imports, types and imports for their effects
 * included.
 */
function importsBelow(folder: string): Map<string, string[]> {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  )
  return new Map(
    files.map((file) => {
      const imports = readFileSync(join(folder, file), 'utf8').matchAll(
        /(?:from|import)[ (]\s*'(\.{1,2}\/[^']+)'/g,
      )
      const targets = [...imports].map(([, path = '']) => relative(folder, join(folder, dirname(file), path)))
      return [file, targets.filter((target) => !target.startsWith('..'))]
    }),
  )
}

t.test('a folder imports only from those above it in the table of src/README.md', async (t) => {
  const layers = rows()
  const layerOf = (path: string) => layers.findIndex((row) => row.includes(path.split('/')[0] ?? ''))
  const imports = importsBelow(root)
  t.ok(imports.size > 100)
  for (const [file, targets] of imports) {
    if (/^(codegen|bin|packaging)\//.test(file)) continue
    for (const target of targets) {
      const [own, other] = [layerOf(file), layerOf(target)]
      const isSame = target.split('/')[0] === file.split('/')[0]
      const isAssembly = own === other && !file.includes('/')
      t.ok(own >= 0 && other >= 0, `${file} and ${target} are in the table`)
      t.ok(isSame || isAssembly || other < own, `${file} may import ${target}`)
    }
  }
})

for (const folder of ['src', 'clients/typescript/src']) {
  t.test(`no file of ${folder} imports itself by way of others`, async (t) => {
    const imports = importsBelow(resolve(import.meta.dirname, '../..', folder))
    // Files that import nothing are no part of a circle, nor are those that import only such files.
    for (let before = -1; before !== imports.size; ) {
      before = imports.size
      for (const [file, targets] of imports)
        if (!targets.some((target) => imports.has(target))) imports.delete(file)
    }
    t.same([...imports.keys()], [])
  })
}

t.test('no folder of src imports itself by way of others', async (t) => {
  const folders = new Map<string, Set<string>>()
  for (const [file, targets] of importsBelow(root)) {
    const own = dirname(file)
    // A folder within another one may use what lies directly in that one, and all may use what lies
    // directly in src.
    const isOutside = (folder: string) => folder !== own && folder !== '.' && !own.startsWith(`${folder}/`)
    const others = targets.map(dirname).filter(isOutside)
    folders.set(own, new Set([...(folders.get(own) ?? []), ...others]))
  }
  // A folder that imports no other folder is no part of a circle, nor is one that imports only such
  // folders.
  for (let before = -1; before !== folders.size; ) {
    before = folders.size
    for (const [folder, others] of folders)
      if (![...others].some((other) => folders.has(other))) folders.delete(folder)
  }
  t.same([...folders.keys()], [])
})

t.test('the picture in src/README.md shows every table', async (t) => {
  const [, picture = ''] =
    /## The tables\n\n```\n([^`]+`[^`]+`[^`]*)```/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? []
  const migrations = readFileSync(join(root, 'store/schema/migrations.ts'), 'utf8')
  const namesAfter = (statement: RegExp) => [...migrations.matchAll(statement)].map(([, name]) => name)
  const renamed = namesAfter(/alter table (\w+) rename to/g)
  const tables = namesAfter(/create table (\w+)/g).filter((name) => !renamed.includes(name))
  t.ok(tables.length > 10)
  for (const table of tables) t.match(picture, new RegExp(`\\b${table}\\b`))
})

t.test('what keeps values is in the tables of caches in src/README.md', async (t) => {
  const [, text = ''] = /^## Caches$(.*?)^## /ms.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? []
  const helpers = /'lru-cache'|\bRowCache\b|\b(?:bounded)?[mM]emoize\w*\(|\bnew (?:FileCache|CachedReads)\b/
  const files = [...importsBelow(root).keys()].filter(
    (file) => !/^(codegen|packaging)\/|util\/memoize/.test(file),
  )
  const keeping = files.filter((file) => helpers.test(readFileSync(join(root, file), 'utf8')))
  t.ok(keeping.length > 25)
  for (const file of keeping) t.ok(text.includes(`\`${file}\``), file)
  for (const [, file = ''] of text.matchAll(/`([\w-]+\/[\w/-]+\.ts)`/g))
    t.ok(files.includes(file), `${file} exists`)
})
