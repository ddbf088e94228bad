import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import type { Test } from 'tap'
import { openEngine, type StoreOptions } from '../../src/store/store.ts'
import { newId } from '../../src/store/time.ts'

/** Contexts that a commit may have by default. */
const CONTEXTS = 1_000
const BATCH = 500

const URL = 'https://e.org/'
const longUrl = URL.padEnd(2_048, 'x')

/**
 * Texts of a status: one character of its context, and the rest. Most are as long as they may be.
 */
const kinds = {
  /** Six bytes of JSON for a character: 10 MB for a commit. */
  control: { context: '\u0001', description: '\u0001'.repeat(1_024), url: longUrl },
  /** Four bytes for a character. */
  emoji: { context: '\u{1F600}', description: '\u{1F600}'.repeat(1_024), url: longUrl },
  ascii: { context: 'x', description: 'd'.repeat(1_024), url: longUrl },
  short: { context: 'x', description: 'passed', url: URL },
  /** 250 bytes. */
  ordinary: {
    context: '',
    description: '412 tests passed',
    url: 'https://ci.example.org/acme/rocket/jobs/471100',
  },
}

interface Filling {
  repositoryId: number
  sha: string
  kind?: keyof typeof kinds
  contexts?: number
}

/** Gives a commit statuses. */
export async function fillCommit(
  options: StoreOptions,
  { repositoryId, sha, kind = 'control', contexts = CONTEXTS }: Filling,
): Promise<void> {
  const engine = await openEngine({ ...options, statementTimeout: false })
  const { context, description, url } = kinds[kind]
  const rows = Array.from({ length: contexts }, (_, index) => ({
    repository_id: repositoryId,
    sha,
    context: `${index}`.padEnd(4) + context.repeat(251),
    id: newId(),
    state: 'success' as const,
    description,
    target_url: url,
    created_at: 1_700_000_000,
    updated_at: 1_700_000_000,
  }))
  for (let from = 0; from < rows.length; from += BATCH) {
    await engine.kysely
      .insertInto('statuses')
      .values(rows.slice(from, from + BATCH))
      .execute()
  }
  await engine.close()
}

/**
 * Sends a request as a trusted proxy does for a client.
 *
 * @returns its answer, of which nothing was read yet
 */
export async function openAnswer(t: Test, url: string, client: string): Promise<IncomingMessage> {
  const asked = get(url, { agent: false, headers: { 'x-forwarded-for': client } })
  asked.on('error', () => {})
  const [answer] = await once(asked, 'response')
  t.teardown(() => answer.destroy())
  return answer
}

/** Reads and discards an answer. @returns its status and length */
export async function drain(url: string): Promise<{ status: number; length: number }> {
  const [answer] = await once(get(url), 'response')
  let length = 0
  for await (const chunk of answer) length += chunk.length
  return { status: answer.statusCode, length }
}
