import { createHash } from 'node:crypto'
import type { KyselyPlugin } from 'kysely'
import { createPruning } from '../../src/maintenance/prune.ts'
import type { Engine } from '../../src/store/engine.ts'
import type { Prepared } from '../../src/store/prepared.ts'
import { createStore, type Store } from '../../src/store/store.ts'
import { BROWSER } from './sessions.ts'

const REPOSITORIES = 1_000
const USERS = 2_000
/** Contexts of each commit. */
export const CONTEXTS = 10
export const shaOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 40)

/** Returns statements that fill a database. The dialects differ in `numbers` and `hex`. */
export function filling(
  count: number,
  numbers: (name: string, count: number) => string,
  hex: (text: string) => string,
): string[] {
  const commits = count / REPOSITORIES / CONTEXTS
  // Half of the events are of one.
  const repository = `case when n % 2 = 0 then 8 else n % ${REPOSITORIES} end`
  return [
    `insert into users (name, name_key, created_at)
      select 'user' || n, 'user' || n, 1 from ${numbers('u', USERS)}`,
    `insert into owners (name, name_key, created_at)
      select 'user' || n, 'user' || n, 1 from ${numbers('u', USERS)}`,
    `insert into reserved_names (owner_id, name, name_key, repository_id, created_at)
      select r.n, 'former' || f.n, 'former' || f.n, r.n, 1 from ${numbers('r', REPOSITORIES)}, ${numbers('f', 5)}`,
    `insert into members (owner_id, user_id, permission)
      select o.n, 1 + (o.n + u.n) % ${USERS}, 'admin' from ${numbers('o', USERS)}, ${numbers('u', 5)}`,
    `insert into repositories (owner_id, owner, owner_key, name, name_key, visibility, object_format, created_at)
      select n, 'user' || n, 'user' || n, 'repo', 'repo', case when n % 2 = 0 then 'public' else 'private' end, 'sha1', 1
      from ${numbers('r', REPOSITORIES)}`,
    `insert into collaborators (repository_id, user_id, permission, granted)
      select r.n, u.n, 'read', 'read' from ${numbers('r', REPOSITORIES)}, ${numbers('u', 5)}`,
    `insert into reporters (user_name, token_id, token_name)
      select 'user' || n, 'token' || n, 'ci' from ${numbers('u', USERS)}`,
    `insert into tokens (id, user_id, name, prefix, hash, scopes, created_at, reporter_id, repositories)
      select 'token' || n, n, 'ci', 'cst_', 'hash' || n, 'repo', 1, n, case when n = 499 then ' 500 ' end from ${numbers('u', USERS)}`,
    `insert into sessions (hash, user_id, created_at, seen_at)
      select 'session' || n, n, 4000000000, 4000000000 from ${numbers('u', USERS)}`,
    `insert into auth_failures (address, failures, ends_at)
      select '192.0.2.' || n, 1, ${Date.now() + 200_000} from ${numbers('a', 5_000)}`,
    `insert into branch_rules (repository_id, branch_pattern, required, created_at)
      select r.n, 'release-' || u.n, '["ci/*"]', 1 from ${numbers('r', REPOSITORIES)}, ${numbers('u', 5)}`,
    `insert into branch_rule_bypasses (rule_id, user_id)
      select r.n, u.n from ${numbers('r', 5 * REPOSITORIES)}, ${numbers('u', 3)}`,
    `insert into branch_moves (repository_id, ref, push_id, old_id, new_id)
      select r.n, 'refs/heads/main', m.n, ${hex("r.n || '/' || m.n")}, ${hex("r.n || '/' || (m.n + 1)")}
      from ${numbers('r', REPOSITORIES)}, ${numbers('m', 20)}`,
    `insert into push_intents (repository_id, pusher, commands, started_at)
      select n, '{}', '[]', 1 from ${numbers('i', REPOSITORIES)}`,
    `insert into audit_events (time, actor, user_id, user_name, user_key, action, object, repository_id, repository_key, details)
      select n, 'user', n % ${USERS}, 'User' || n % ${USERS}, 'user' || n % ${USERS}, 'push', 'x', ${repository},
        'user' || (${repository}) || '/repo', '{}'
      from ${numbers('e', 20_000)}`,
    `insert into statuses (repository_id, sha, context, id, state, created_at, updated_at, reporter_id)
      select r.n, ${hex("r.n || '/' || c.n")}, 'context ' || x.n, '0190b2c4-7b1e-7000-8000-000000000000', 'success', 1, 1, r.n
      from ${numbers('r', REPOSITORIES)}, ${numbers('c', commits)}, ${numbers('x', CONTEXTS)}
      order by 1, 2, 3`,
    'analyze',
  ]
}

/** A statement with its values. */
export interface Statement {
  sql: string
  values: readonly unknown[]
  /** The query and the parameters of a call that may share its statement with others. */
  call?: { query: Prepared<object, unknown>; params: object }
}

/** Returns a store that records every statement. */
export function recording(engine: Engine): { store: Store; statements: Statement[] } {
  const statements: Statement[] = []
  const note = <Params, Row>(query: Prepared<Params, Row>, params: Params) => {
    // The query is only used with the parameters beside it.
    const call = { query, params } as unknown as NonNullable<Statement['call']>
    statements.push({ sql: query.sql, values: query.bind(params), call })
  }
  const recorder: KyselyPlugin = {
    transformQuery({ node, queryId }) {
      const { sql, parameters } = engine.kysely.getExecutor().compileQuery(node, queryId)
      statements.push({ sql, values: parameters })
      return node
    },
    transformResult: async ({ result }) => result,
  }
  const store = createStore(
    {
      ...engine,
      kysely: engine.kysely.withPlugin(recorder),
      read(query, params) {
        note(query, params)
        return engine.read(query, params)
      },
      write(query, params, ...rest) {
        note(query, params)
        return engine.write(query, params, ...rest)
      },
    },
    '/nonexistent',
  )
  return { store, statements }
}

const SHA = shaOf('500/5')
const NEW_SHA = shaOf('new')
const report = {
  repositoryId: 500,
  context: 'context 3',
  state: 'failure',
  description: null,
  target_url: null,
} as const

/** What requests read and write, by purpose. */
export const requests: Record<string, (store: Store) => Promise<unknown>> = {
  authorization: (store) => store.access.find('192.0.2.7', 'hash77', 'user500', 'repo'),
  'authorization of a limited token': (store) => store.access.find('192.0.2.7', 'hash499', 'user499', 'repo'),
  'a first report': (store) => store.statuses.report({ ...report, sha: NEW_SHA }),
  'a report to a repository that is gone': (store) =>
    store.statuses.report({ ...report, repositoryId: -1, sha: SHA }),
  'another report': (store) => store.statuses.report({ ...report, sha: SHA }),
  'a first report of a run': (store) =>
    store.statuses.report({ ...report, context: 'run', sha: NEW_SHA, run: 'a' }),
  'another report of a run': (store) => store.statuses.report({ ...report, sha: SHA, run: 'a' }),
  'a claim': (store) =>
    store.statuses.report({
      ...report,
      context: 'claim',
      sha: NEW_SHA,
      state: 'pending',
      run: 'a',
      claim: 300,
    }),
  'commits that wait for a check': (store) =>
    store.awaited({
      repositoryId: 500,
      context: 'context 3',
      shas: JSON.stringify([SHA, NEW_SHA]),
    }),
  'whether a commit has statuses': (store) => store.statuses.hasAny(500, SHA),
  'whether a new commit has statuses': (store) => store.statuses.hasAny(500, 'f'.repeat(40)),
  'all statuses of a commit': (store) => store.statuses.list(500, SHA),
  'counts of a commit': (store) => store.summaries.countByState(500, SHA),
  'summaries of commits': (store) =>
    store.summaries.list([
      { repositoryId: 500, sha: SHA },
      { repositoryId: 501, sha: NEW_SHA },
    ]),
  'checks of commits': (store) => store.matrix.listColumns(500, [SHA, NEW_SHA]),
  'repositories with reports': (store) => store.summaries.reportedIn([500, 501, 5_000]),
  'states of a commit': (store) => store.summaries.listStates({ repositoryId: 500, sha: SHA }),
  'the history of contexts': (store) =>
    store.matrix.listHistories(500, [SHA, NEW_SHA], ['context 3', 'context 4']),
  'the state of a context': (store) => store.summaries.findState(500, SHA, 'context 3'),
  'what a branch was at': (store) => store.listTips(500, 'refs/heads/main', SHA),
  'what a branch was at lately': (store) => store.listTips(500, 'refs/heads/main', SHA, 'latest'),
  'all that a branch was at': (store) => store.listTips(500, 'refs/heads/main', SHA, 'all'),
  'the rules of a branch': (store) => store.rules.requiredPatterns(500, 'release-3'),
  'all statuses of a commit with their reporters': (store) =>
    store.statuses.listWithReporters({ repositoryId: 500, sha: SHA }),
  'checks of commits that have ended': (store) => store.statuses.listResults(500, [SHA, NEW_SHA]),
  'a failure': (store) => store.failures.count('192.0.2.9', { limit: 30, window: 300 }),
  'a reservation and its release': async (store) => {
    const reservation = await store.failures.reserve('192.0.2.10', { limit: 30, window: 300 })
    await reservation?.release()
  },
  'a budget': (store) => store.failures.find('192.0.2.9'),
  'last use of a token': (store) => store.tokens.touch(new Map([['token9', 5]])),
  'the events of a user': (store) =>
    store.auditLog.latest({ id: 9, name: 'User9' }, 2, { time: 9_000, id: 9_000 }),
  'the audit log of a repository': (store) => drain(store.auditLog.list({ repository: 'User9/repo' })),
  'the latest events of a repository': (store) =>
    store.auditLog.latestOf(8, 9, {}, 2, { time: 9_000, id: 9_000 }),
  ...Object.fromEntries(
    [{ action: 'rule.set' } as const, { user: 'User8' }, { action: 'rule.set', user: 'User8' } as const].map(
      (filter) => [
        `the events of a repository with ${Object.keys(filter).join(' and ')}`,
        (store: Store) =>
          store.auditLog.latestOf(8, 9, filter, 2, {
            time: 9_000,
            id: 9_000,
          }),
      ],
    ),
  ),
  'the latest complete backup': (store) => store.auditLog.latestBackup('backup.completed'),
  'the audit log of a user': (store) => drain(store.auditLog.list({ user: 'USER9' })),
  'the latest part of the audit log': (store) => drain(store.auditLog.list({ since: 19_990 })),
  'a session': (store) => store.sessions.use('session9', BROWSER),
  'the version of the database': async (store) => store.versions.ofAll(undefined),
  'a repository on a page': (store) => store.listing.find(7, 'user500', 'repo'),
  'a repository by a former name': (store) => store.listing.findRenamed(7, 'user500', 'former3'),
  'the repositories of an owner': (store) => store.listing.list(7, 30, { owner: 'user500' }),
  'repositories by the beginning of a name': (store) => store.listing.search(7, 'repo', 30),
  'repositories of an owner by the beginning of a name': (store) => store.listing.search(7, 'user500/re', 30),
  'repositories that were pushed to lately': (store) => store.listing.pushedLately(200),
  'a batch of pruning': (store) => createPruning(store, { no_longer_in_git: true })(500, [SHA, NEW_SHA], 1),
  'a user signing in': (store) => store.users.find('user9'),
}

/** Returns statements that fill a PostgreSQL database with `count` statuses. */
export function postgresFilling(count: number): string[] {
  const numbers = (name: string, count: number) => `generate_series(1, ${count}) as ${name}(n)`
  const hex = (text: string) => `left(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), 40)`
  return filling(count, numbers, hex)
}

async function drain(batches: AsyncIterable<unknown>): Promise<void> {
  for await (const _batch of batches);
}
