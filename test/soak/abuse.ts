import tap from 'tap'
import { askWithoutEnd } from './abuse/decisions.ts'
import { createFixture } from './abuse/fixture.ts'
import {
  attackGitPlaces,
  attackThroughCaddy,
  attackThroughNginx,
  attackThroughProxy,
} from './abuse/git-places.ts'
import { pipelineReads } from './abuse/pipelined.ts'
import { floodSignIn } from './abuse/sign-in.ts'
import { leaveUnread } from './abuse/unread.ts'
import { tableOf } from './parts/figures.ts'

/**
 * Attacks a server from several loopback addresses, by HTTP and git alone, while well-meaning
 * clients use it, and shows how they fare. Fails when what they are promised is broken. Linux only.
 * The soak `pages` attacks pages.
 *
 * `npm run soak -- abuse [git-places | git-nginx | git-caddy | git-proxy | unread | pipelined | sign-in | decisions]`
 */
const scenarios = {
  'git-places': attackGitPlaces,
  'git-nginx': attackThroughNginx,
  'git-caddy': attackThroughCaddy,
  'git-proxy': attackThroughProxy,
  unread: leaveUnread,
  pipelined: pipelineReads,
  'sign-in': floodSignIn,
  decisions: askWithoutEnd,
}

const [, , , wanted] = process.argv
tap.setTimeout(3_600_000)
const fixture = await createFixture(tap)
for (const [name, run] of Object.entries(scenarios).filter(([name]) => (wanted ?? name) === name))
  tap.test(name, async (t) => {
    const rows = await run(fixture, t)
    for (const line of tableOf(rows).trimEnd().split('\n')) t.comment(line)
    for (const { name, failures, promise } of rows)
      if (promise) t.ok(promise.kept, `${name}: ${promise.text}`, { failures: [...new Set(failures)] })
  })
