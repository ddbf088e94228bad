import { tableOf } from './abuse/figures.ts'
import { createFixture } from './abuse/fixture.ts'
import { attackGitPlaces } from './abuse/git-places.ts'
import { loopOnPages } from './abuse/pages.ts'
import { pipelineReads } from './abuse/pipelined.ts'
import { floodSignIn } from './abuse/sign-in.ts'
import { leaveUnread } from './abuse/unread.ts'

/**
 * Attacks a server from several loopback addresses, by HTTP and git alone, while well-meaning clients use it, and shows how
 * they fare. Fails when what they are promised is broken. Linux only.
 *
 * `npm run soak -- abuse [git-places | unread | pipelined | pages | sign-in]`
 */
const scenarios = {
  'git-places': attackGitPlaces,
  unread: leaveUnread,
  pipelined: pipelineReads,
  pages: loopOnPages,
  'sign-in': floodSignIn,
}

const [, , , wanted] = process.argv
const chosen = Object.entries(scenarios).filter(([name]) => wanted === undefined || name === wanted)
if (chosen.length === 0) throw new Error(`${wanted} is none of ${Object.keys(scenarios).join(', ')}`)

const fixture = await createFixture()
try {
  const rows = []
  for (const [name, run] of chosen) {
    process.stderr.write(`${name} …\n`)
    rows.push(...(await run(fixture)))
  }
  process.stdout.write(tableOf(rows))
  for (const { name, failures } of rows)
    for (const failure of new Set(failures)) process.stdout.write(`${name}: ${failure}\n`)
  if (rows.some(({ promise }) => promise?.kept === false)) process.exitCode = 1
} finally {
  fixture.stop()
}
