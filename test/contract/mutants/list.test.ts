import { readFileSync } from 'node:fs'
import t from 'tap'
import ts from 'typescript'
import { applyEdits, node } from './edit.ts'
import { mutants } from './list.ts'

t.test('every mutant applies to the source and is valid TypeScript', async (t) => {
  t.ok(Object.keys(mutants).length >= 20)
  for (const [name, edits] of Object.entries(mutants)) {
    for (const [file, text] of applyEdits(name, edits)) {
      t.not(text, readFileSync(file, 'utf8'), name)
      const { diagnostics } = ts.transpileModule(text, { reportDiagnostics: true, fileName: file })
      t.same(diagnostics, [], `${name}: ${file}`)
    }
  }
})

t.test('a mutant that does not apply is an error', async (t) => {
  t.throws(() => applyEdits('nothing', [node('src/api', () => undefined)]), /"nothing" does not apply/)
})
