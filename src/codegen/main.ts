import { relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { SpecError } from './document.ts'
import { findDrift, writeGenerated } from './generate.ts'

const root = resolve(import.meta.dirname, '../..')
const { values } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    spec: { type: 'string', default: resolve(root, 'openapi.yaml') },
    server: { type: 'string', default: resolve(root, 'generated') },
    client: { type: 'string', default: resolve(root, 'clients/typescript/src/generated') },
  },
})

try {
  if (values.check) {
    const drift = await findDrift(values)
    for (const path of drift)
      process.stderr.write(`${relative(process.cwd(), path)} does not match openapi.yaml\n`)
    if (drift.length > 0) process.stderr.write('Run `npm run generate` and commit the result.\n')
    process.exitCode = drift.length > 0 ? 1 : 0
  } else {
    await writeGenerated(values)
  }
} catch (error) {
  if (!(error instanceof SpecError)) throw error
  process.stderr.write(`${relative(process.cwd(), values.spec)}: ${error.message}\n`)
  process.exitCode = 1
}
