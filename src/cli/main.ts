import '../runtime.ts'
import { run } from './run.ts'

// What is created here, also by git, is for this account alone.
process.umask(0o077)
process.exitCode = await run(process.argv.slice(2), process.env)
