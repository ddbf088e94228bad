import tap from 'tap'
import { tryRandomPushes } from '../git-http/push/rule-model.ts'
import { startServer } from '../helpers/server.ts'

/** Compares the outcome of 2,000 random pushes of branches and tags with the rule in ten lines. */
const PUSHES = 2_000

tap.setTimeout(1_800_000)
for (const objectFormat of ['sha1', 'sha256'] as const)
  tap.test(`random pushes end as the rule says: ${objectFormat}`, async (t) => {
    const server = await startServer(t)
    const seed = Date.now() % 2 ** 31
    t.comment(`seed ${seed}`)
    t.equal(await tryRandomPushes(t, server, objectFormat, PUSHES, seed), PUSHES)
  })
