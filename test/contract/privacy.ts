import assert from 'node:assert/strict'
import { bodyFor } from './answers.ts'
import type { JsonAnswer } from './client.ts'
import { type Check, expectStatus } from './run.ts'
import { cleanCommit, commitsOf, pathParams } from './world.ts'

/** Whatever is asked, by whoever may not see it: a private repository answers like one that is not there. */
export const privacy: Check = {
  name: 'private and missing look the same',
  async run({ client, world }) {
    const { open, closed, writer, stranger, scopeless } = world
    const missing = { ...closed, name: `${closed.name.slice(0, -1)}x` }
    const known = commitsOf(closed)[0] ?? ''
    for (const operation of client.contract.operations) {
      // Something is stored on one of the commits.
      const params = pathParams(closed, known)
      const seen = await client.call(operation, { params, token: writer.secret, body: bodyFor(operation) })
      assert(seen.status < 300, `${operation.id}: ${seen.status}`)
      const shas = [known, cleanCommit(closed), cleanCommit(open), '0'.repeat(40), '0'.repeat(64), 'main']
      const bodies = operation.body
        ? [bodyFor(operation), '{', { state: 1 }, 'x'.repeat(20_000), '']
        : [undefined]
      for (const token of [undefined, stranger.secret, scopeless.secret]) {
        const status = token === undefined ? 401 : token === scopeless.secret ? 403 : 404
        for (const sha of shas) {
          for (const body of bodies) {
            const ask = (repository: typeof closed) =>
              client.call(operation, { params: pathParams(repository, sha), token, body })
            const [hidden, absent] = [await ask(closed), await ask(missing)]
            expectStatus(hidden, status, operation.id)
            assert.deepEqual(tellTale(hidden), tellTale(absent))
          }
        }
      }
    }
  },
}

/** All of an answer but what differs between any two. */
function tellTale({ status, headers, body }: JsonAnswer) {
  const shown = [...headers].filter(([name]) => name !== 'date' && name !== 'x-request-id')
  return { status, body, headers: shown }
}
