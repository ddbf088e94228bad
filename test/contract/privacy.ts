import assert from 'node:assert/strict'
import { bodyFor } from './answers.ts'
import type { JsonAnswer } from './client.ts'
import { cleanCommit, commitsOf, pathParams } from './fixture.ts'
import { type Check, expectStatus } from './run.ts'

/**
 * Compares answers to callers without access: those for a private repository equal those for a
 * missing one.
 */
export const privacy: Check = {
  name: 'a private repository is indistinguishable from a missing one',
  async run({ client, fixture }) {
    const { open, closed, writer, stranger, scopeless } = fixture
    const missing = { ...closed, name: `${closed.name.slice(0, -1)}x` }
    const known = commitsOf(closed)[0] ?? ''
    for (const operation of client.contract.operations) {
      // One of the commits has a status.
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
            const callOn = (repository: typeof closed) =>
              client.call(operation, { params: pathParams(repository, sha), token, body })
            const [hidden, absent] = [await callOn(closed), await callOn(missing)]
            expectStatus(hidden, status, operation.id)
            assert.deepEqual(comparable(hidden), comparable(absent))
          }
        }
      }
    }
  },
}

/** Returns the parts of an answer that do not vary between requests. */
function comparable({ status, headers, body }: JsonAnswer) {
  const shown = [...headers].filter(([name]) => name !== 'date' && name !== 'x-request-id')
  return { status, body, headers: shown }
}
