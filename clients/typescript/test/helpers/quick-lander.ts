import { land } from '../../src/cli/land/land.ts'

/** Times that a test can wait for, in milliseconds. */
export const quickTimes = { heartbeat: 300, grace: Number(process.env.GRACE ?? 1_000), interval: 300 }
/** As a program, `commit-status land` with these times. */
if (import.meta.main) process.exitCode = await land(process.argv.slice(3), process.env, () => quickTimes)
