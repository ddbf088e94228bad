import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'

const root = resolve(import.meta.dirname, '../..')

t.test('every long proof runs weekly, and src/README.md says which rules nothing else tests', async (t) => {
  const weekly = parse(readFileSync(join(root, '.github/workflows/weekly.yml'), 'utf8'))
  const proofs = readdirSync(join(root, 'test/soak'))
    .filter((file) => file.endsWith('.ts'))
    .map((file) => file.slice(0, -'.ts'.length))
    .filter((name) => name !== 'run')
  t.same(weekly.jobs.soak.strategy.matrix.proof, proofs.sort())
  const rules = readFileSync(join(root, 'src/README.md'), 'utf8').match(/^\| .* \| .*`test\/.*\|$/gm) ?? []
  t.ok(rules.length > 30)
  for (const rule of rules) {
    const onlySoaked = /\| (`test\/soak\/[^`]*`(, )?)+(only weekly)? \|$/.test(rule)
    t.equal(rule.includes('only weekly'), onlySoaked, rule)
  }
})
