import { land } from '../../src/cli/land/land.ts'

/** `commit-status land` with times that a test can wait for. */
const times = { heartbeat: 300, grace: Number(process.env.GRACE ?? 1_000), interval: 300 }
process.exitCode = await land(process.argv.slice(3), process.env, () => times)
