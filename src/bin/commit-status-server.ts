#!/usr/bin/env node
import '../runtime.ts'

const [, , ...args] = process.argv
if (args.length === 0) {
  // Only now: what an older Node.js cannot load must not be loaded before it was looked at.
  await import('../server.ts')
} else {
  process.stderr.write(
    'usage: commit-status-server\n\nIt takes no arguments: environment variables say how it is run (DATA_DIR, PORT, …). ' +
      'commit-status-admin administers it.\n',
  )
  process.exitCode = args[0] === '--help' ? 0 : 2
}
