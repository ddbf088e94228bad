import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import '../../src/runtime.ts'

/** Runs one of the long proofs that are no part of `npm test`: `npm run soak -- NAME`. */
const [, , name] = process.argv
const proofs = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && file !== 'run.ts')
  .map((file) => file.slice(0, -'.ts'.length))

if (name !== undefined && proofs.includes(name)) {
  await import(join(import.meta.dirname, `${name}.ts`))
} else {
  process.stderr.write(`usage: npm run soak -- NAME, where NAME is one of: ${proofs.join(', ')}\n`)
  process.exitCode = 2
}
