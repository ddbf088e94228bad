import '../runtime.ts'
import { run } from './run.ts'

// Files that the commands and git create are for this account alone.
process.umask(0o077)
process.exitCode = await run(process.argv.slice(2), process.env)
