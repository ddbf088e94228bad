import '../runtime.ts'
import { run } from './run.ts'

// Files that the commands and git create are for this account alone.
process.umask(0o077)
// What reads the output has seen enough: `user list | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  // As if SIGPIPE had ended it.
  process.exit(141)
})
// The command is to end as usual where nobody reads what it says: `repo create --from repos 2>&1 |
// head -1`.
process.stderr.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
})
process.exitCode = await run(process.argv.slice(2), process.env)
