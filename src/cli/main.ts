import '../runtime.ts'
import { run } from './run.ts'

// Files that the commands and git create are for this account alone.
process.umask(0o077)
// What reads the output has seen enough: `user list | head -1`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})
process.exitCode = await run(process.argv.slice(2), process.env)
