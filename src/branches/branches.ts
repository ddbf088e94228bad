import { type ReportedContext, verdictSteps } from '../domain/verdict.ts'
import { BranchLists } from '../git/history/branch-lists.ts'
import { FirstParents } from '../git/history/first-parents.ts'
import { FormerTips } from '../git/history/former-tips.ts'
import { FairQueue, type QueueClient } from '../schedule/fair-queue.ts'
import { Turns } from '../schedule/turns.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { Store } from '../store/store.ts'
import { type AwaitingPage, type AwaitingQuery, listAwaitingPage } from './awaiting-page.ts'
import { type BranchPage, type BranchQuery, listBranchPage } from './branch-page.ts'
import { createDecisions } from './decisions.ts'
import { createKeptPages } from './kept-pages.ts'
import { findLastPassed, type LastPassedQuery } from './last-passed.ts'

export type Branches = ReturnType<typeof createBranches>

/** Returns functions that answer questions about branches: for the API and for pages. */
export function createBranches(
  store: Pick<Store, 'rules' | 'reportedContexts' | 'awaited' | 'listTips' | 'remote'>,
) {
  // git has slots of its own here, so that programs that ask about branches keep no page waiting.
  const queue = new FairQueue({ slots: 2, slotsPerClient: 1, waitingPerClient: 100 })
  const disk = store.remote ? 'shared' : 'own'
  const lists = new BranchLists(queue, {}, disk)
  const formerTips = new FormerTips(queue, new FirstParents(queue, {}, disk))
  const { listTips } = store
  const turns = new Turns(store.remote)
  const decide = createDecisions(store, turns)
  const keepPage = createKeptPages<BranchPage>()
  const keepAwaitingPage = createKeptPages<AwaitingPage>()

  return {
    /** See `findLastPassed`. */
    lastPassed: (repository: ReadableRepository, query: LastPassedQuery, client: QueueClient) =>
      findLastPassed({ lists, listTips, formerTips, decide }, repository, query, client),

    /** Decides about a commit as `verdictSteps` does, in turns with the other questions. */
    verdict: (reported: readonly ReportedContext[], patterns: readonly string[], client: QueueClient) =>
      turns.finish(client, verdictSteps(reported, patterns)),

    /** See `listBranchPage`. */
    list: (repository: ReadableRepository, query: BranchQuery, client: QueueClient) =>
      listBranchPage({ lists, turns, decide, keepPage }, repository, query, client),

    /** See `listAwaitingPage`. */
    awaiting: (repository: ReadableRepository, query: AwaitingQuery, client: QueueClient) =>
      listAwaitingPage(
        { lists, turns, awaited: store.awaited, keepPage: keepAwaitingPage },
        repository,
        query,
        client,
      ),
  }
}
