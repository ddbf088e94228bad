import { land } from '../../src/cli/land/land.ts'

/** Times that a test can wait for, in milliseconds. */
export const quickTimes = { heartbeat: 500, grace: 1_500, interval: 500 }
/** As a program, `commit-status land` with these times. */
if (import.meta.main)
  process.exitCode = await land(process.argv.slice(3), process.env, process, () => quickTimes)
