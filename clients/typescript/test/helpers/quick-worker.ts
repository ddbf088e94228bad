import { work } from '../../src/cli/work/work.ts'

/** Times that a test can wait for: the shortest claim, in seconds, and milliseconds. */
const quickTimes = { claim: 10, renewal: 1_000, refusal: 1_000, grace: 500 }
/** `commit-status work` with these times. */
process.exit(await work(process.argv.slice(3), process.env, quickTimes))
