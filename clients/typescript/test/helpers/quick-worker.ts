import { work } from '../../src/cli/work/work.ts'

/** Times that a test can wait for: the shortest claim, milliseconds, and seconds without a byte. */
export const quickTimes = { claim: 10, renewal: 1_000, refusal: 1_000, grace: 500, stall: 10 }
/** As a program, `commit-status work` with these times. */
if (import.meta.main) process.exit(await work(process.argv.slice(3), process.env, process, quickTimes))
