import type { ListAwaitingResult, ReportStatusResult, StatusReport } from '../../index.ts'
import { RETRIED } from '../../transport.ts'
import type { Service } from './service.ts'

/** A commit that waits for the check, and the branches whose newest commit it is. */
export interface WaitingCommit {
  sha: string
  branches: string[]
  state: 'pending' | null
}

/** How the list of what waits was read. */
type Reading =
  | { kind: 'read' }
  | { kind: 'away'; reason: string }
  | { kind: 'refused'; reason: string; status: number }

/** A repository whose branches are watched for one check. */
export interface Repository {
  owner: string
  repo: string
  /** OWNER/NAME */
  name: string
  context: string
  /** What waits, by id, as last read. */
  waiting: ReadonlyMap<string, WaitingCommit>
  read(signal?: AbortSignal): Promise<Reading>
  report(sha: string, body: StatusReport): Promise<ReportStatusResult>
}

interface RepositoryOptions {
  service: Service
  owner: string
  repo: string
  context: string
  match: string | undefined
}

type Page = Extract<ListAwaitingResult, { status: 200 }>
export const OUTDATED = 'the server is too old: work needs version 1.5.0 of its API'
/** Ids that no commit has, of both object formats. */
const NO_COMMITS = [40, 64].map((length) => '0'.repeat(length))

/** Creates what reads and reports on one repository. Each page is asked for with its `ETag`. */
export function createRepository({ service, owner, repo, context, match }: RepositoryOptions): Repository {
  let pages: { after: string | undefined; answer: Page }[] = []

  const repository: Repository = {
    owner,
    repo,
    name: `${owner}/${repo}`,
    context,
    waiting: new Map(),
    async read(signal) {
      const current: typeof pages = []
      for (let after: string | undefined, index = 0; ; index++) {
        const known = pages[index]?.after === after ? pages[index]?.answer : undefined
        const input = {
          owner,
          repo,
          context,
          ...(match !== undefined && { match }),
          ...(after !== undefined && { after }),
        }
        const etag = known?.headers.get('etag') ?? undefined
        const answer = await service.call((client) =>
          client.listAwaiting(input, { signal, ifNoneMatch: etag }),
        )
        const page = answer.status === 304 ? known : answer.status === 200 ? answer : undefined
        if (answer.status !== 304 && answer.status !== 200) {
          const reason = answer.body.error
          return isOutage(answer)
            ? { kind: 'away', reason }
            : { kind: 'refused', reason, status: answer.status }
        }
        if (!page) throw new Error('the service answered 304 to a read without If-None-Match')
        current.push({ after, answer: page })
        if (page.body.next === null) break
        if (page.body.next === after)
          return { kind: 'away', reason: 'it answered a page whose next one is the same' }
        after = page.body.next
      }
      pages = current
      repository.waiting = byCommit(pages.map(({ answer }) => answer))
      return { kind: 'read' }
    },
    report: (sha, body) => service.call((client) => client.reportStatus({ owner, repo, sha, body })),
  }
  return repository
}

/**
 * Returns why a worker cannot work for a repository; undefined if it can, or if that cannot be told
 * since the service is away.
 */
export async function findObstacle(repository: Repository, service: Service): Promise<string | undefined> {
  const { owner, repo, context } = repository
  const reading = await repository.read()
  if (reading.kind === 'away') return undefined
  if (reading.kind === 'refused') {
    if (reading.status !== 404) return reading.reason
    // An older server has branches, but does not say which of them wait.
    const { status } = await service.call((client) => client.listBranches({ owner, repo, limit: 1 }))
    return status === 200 ? OUTDATED : reading.reason
  }
  let reason: string | undefined
  for (const sha of NO_COMMITS) {
    // Only a report shows whether the token may report: one on a commit that cannot be there.
    const answer = await repository.report(sha, { state: 'pending', context, run: 'none', claim: 10 })
    if (answer.status === 201 || answer.status === 404 || isOutage(answer)) return undefined
    reason = answer.body.error
    if (answer.status !== 422) return reason
  }
  return reason
}

function byCommit(pages: readonly Page[]): Map<string, WaitingCommit> {
  const commits = new Map<string, WaitingCommit>()
  for (const { name, sha, state } of pages.flatMap(({ body }) => body.branches)) {
    const known = commits.get(sha)
    if (known) known.branches.push(name)
    else commits.set(sha, { sha, branches: [name], state })
  }
  return commits
}

/** Returns whether the same request may be answered otherwise without anybody changing anything. */
export function isOutage(answer: {
  status: number
  body?: { reason?: string } | { error: string } | undefined
}): boolean {
  if (answer.status !== 0) return RETRIED.includes(answer.status)
  const { body } = answer
  return (
    body !== undefined && 'reason' in body && (body.reason === 'unreachable' || body.reason === 'unexpected')
  )
}
