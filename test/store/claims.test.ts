import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { StatusState } from '../../src/domain/states.ts'
import { TryLater } from '../../src/errors.ts'
import { openStore } from '../../src/store/store.ts'
import { chunksOf } from '../../src/util/lists.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { reportHistories } from '../helpers/claim-histories.ts'
import { postgresWithClock, sqliteWithClock } from '../helpers/clock.ts'
import { databases, openTestStore, sqlite, type TestDatabase } from '../helpers/databases.ts'
import { passTime } from '../helpers/pass-time.ts'
import { signIn } from '../helpers/sessions.ts'

const SHA = 'a'.repeat(40)

/** Opens two stores of one database, each with its own connections. */
async function openTwo(t: Test, database: TestDatabase) {
  const { store, options } = await openTestStore(t, database, { statementTimeout: false })
  const other = await openStore(options)
  t.teardown(() => other.close())
  const repository = { owner: 'acme', name: 'repo', visibility: 'public', objectFormat: 'sha1' } as const
  const { id } = await asAdministrator(store).repositories.create(repository)
  return { stores: [store, other] as const, id }
}

/** A report, of a run that began this many seconds ago, or of none. */
type Report = [state: StatusState, run?: string, ago?: number, claim?: number]
/** A report, or seconds that pass. */
type Step = Report | number
/** Stored, or why not, with the value of `Retry-After`. */
type Outcome = 'stored' | 'late' | 'superseded' | 'result' | `run ${string}, ${number}` | 'requested'

/** What the contract says of the last of several steps. */
const TABLE: readonly [name: string, before: Step[], comes: Report, outcome: Outcome][] = [
  ['nothing is stored, a pending claims', [], ['pending', 'R', 0, 300], 'stored'],
  ['nothing is stored, a result claims', [], ['success', 'R', 60, 300], 'stored'],

  ['the claim is sent again', [['pending', 'R', 0, 300]], ['pending', 'R', 0, 300], 'stored'],
  ['its own claim has passed', [['pending', 'R', 0, 10], 60], ['pending', 'R', 60, 10], 'stored'],
  ['its result comes', [['pending', 'R', 0, 300]], ['success', 'R', 9, 300], 'stored'],
  ['its result comes without a claim', [['pending', 'R', 0, 300]], ['success', 'R', 9], 'stored'],
  ['its result is sent again', [['success', 'R', 0, 300]], ['success', 'R', 0, 300], 'stored'],
  ['its result is corrected', [['success', 'R', 0, 300]], ['failure', 'R', 0, 300], 'stored'],
  ['a pending after its own result', [['success', 'R', 0, 300]], ['pending', 'R', 0, 300], 'late'],
  ['a pending without claim after its own result', [['success', 'R', 0, 300]], ['pending', 'R', 0], 'late'],
  ['a claim over its pending without one', [['pending', 'R', 0]], ['pending', 'R', 0, 300], 'stored'],

  ['another run has just claimed', [['pending', 'R', 0, 300]], ['pending', 'S', 0, 300], 'run R, 300'],
  ['295 s ago', [['pending', 'R', 0, 300], 295], ['pending', 'S', 0, 300], 'run R, 5'],
  ['300 s ago', [['pending', 'R', 0, 300], 300], ['pending', 'S', 0, 300], 'stored'],
  [
    'the claim of 10 s steals nothing',
    [['pending', 'R', 0, 300], 200],
    ['pending', 'S', 0, 10],
    'run R, 100',
  ],
  ['a longer claim waits longer', [['pending', 'R', 0, 10], 100], ['pending', 'S', 0, 300], 'run R, 200'],
  ['a longer claim, at its end', [['pending', 'R', 0, 10], 300], ['pending', 'S', 0, 300], 'stored'],
  ['both claims have passed', [['pending', 'R', 0, 10], 10], ['pending', 'S', 0, 10], 'stored'],
  [
    'a claim that was renewed',
    [['pending', 'R', 0, 300], 200, ['pending', 'R', 200, 300], 200],
    ['pending', 'S', 0, 300],
    'run R, 100',
  ],
  [
    'a claim that was renewed for less',
    [['pending', 'R', 0, 300], ['pending', 'R', 0, 10], 10],
    ['pending', 'S', 0, 10],
    'stored',
  ],
  [
    'a claim that passed, but the run is superseded',
    [['pending', 'R', 0, 10], 60],
    ['pending', 'S', 70, 10],
    'run R, 1',
  ],
  [
    'a claim that passed, by a run 4 s older',
    [['pending', 'R', 0, 10], 60],
    ['pending', 'S', 64, 10],
    'stored',
  ],
  ['a result while another run holds', [['pending', 'R', 0, 300]], ['success', 'S', 0, 300], 'run R, 300'],
  ['a result after the claim has passed', [['pending', 'R', 0, 10], 60], ['success', 'S', 0, 10], 'run R, 1'],
  [
    'a clock that was set back a little',
    [['pending', 'R', 0, 300], -3],
    ['pending', 'S', 0, 300],
    'run R, 303',
  ],
  [
    'a clock that was set back by an hour',
    [['pending', 'R', 0, 300], -3_600],
    ['pending', 'S', 0, 300],
    'stored',
  ],
  ['another pending without a claim', [['pending', 'R', 60]], ['pending', 'S', 0, 300], 'run R, 301'],
  ['of a server whose clock is ahead', [['pending', 'R', 60], -3_600], ['pending', 'S', 0, 300], 'stored'],
  ['6 s ago', [['pending', 'R', 60], 6], ['pending', 'S', 0, 10], 'run R, 5'],
  ['11 s ago', [['pending', 'R', 60], 11], ['pending', 'S', 0, 10], 'stored'],
  [
    'renewed without a claim',
    [['pending', 'R', 0, 300], 100, ['pending', 'R', 100], 11],
    ['pending', 'S', 0, 10],
    'stored',
  ],
  [
    'another run without a claim in the same second',
    // A stored time that is ahead is kept.
    [['pending', 'R', 0, 3_600], -60, ['pending', 'S', 0], 71],
    ['pending', 'T', 0, 10],
    'stored',
  ],
  [
    'renewed without a claim in the same second',
    [['pending', 'R', 0, 3_600], -60, ['pending', 'R', 0], 71],
    ['pending', 'T', 0, 10],
    'stored',
  ],

  ['another result', [['success', 'R', 0, 300]], ['pending', 'S', 0, 300], 'result'],
  ['another result without a claim', [['failure', 'R', 0], 9_000], ['pending', 'S', 0, 300], 'result'],
  ['a result of no run', [['error'], 9_000], ['pending', 'S', 0, 300], 'result'],
  ['a result over another one', [['success', 'R', 0, 300]], ['failure', 'S', 0, 300], 'result'],
  ['a result over one of no run', [['success']], ['failure', 'S', 0, 300], 'result'],

  ['a request, by a run from before', [['pending'], 10], ['pending', 'R', 20, 300], 'requested'],
  ['a request, by a run after', [['pending'], 10], ['pending', 'R', 5, 300], 'stored'],
  [
    'a request of a server whose clock is 3 s ahead',
    [['pending'], -3],
    ['pending', 'R', 0, 300],
    'requested',
  ],
  ['by an hour', [['pending'], -3_600], ['pending', 'R', 0, 300], 'stored'],
  [
    'by an hour, by the run in progress',
    [['pending', 'R', 0, 300], ['pending'], -3_600],
    ['pending', 'R', 0, 300],
    'requested',
  ],
  ['a request, and a result', [['pending'], 10], ['success', 'R', 5, 300], 'requested'],
  [
    'a request during a run, which claims again',
    [['pending', 'R', 0, 300], 10, ['pending'], 10],
    ['pending', 'R', 20, 300],
    'requested',
  ],
  [
    'which says that it began after',
    [['pending', 'R', 0, 300], 10, ['pending'], 10],
    ['pending', 'R', 0, 300],
    'requested',
  ],
  [
    'a request during a run, whose result comes',
    [['pending', 'R', 0, 300], 10, ['pending'], 10],
    ['success', 'R', 20, 300],
    'requested',
  ],
  [
    'a request during a run, another one claims',
    [['pending', 'R', 0, 300], 10, ['pending'], 10],
    ['pending', 'S', 0, 300],
    'stored',
  ],
  [
    'a request after a result',
    [['success', 'R', 0, 300], 10, ['pending'], 10],
    ['pending', 'S', 0, 300],
    'stored',
  ],
  [
    'a request after a result, by the same run',
    [['success', 'R', 0, 300], 10, ['pending'], 10],
    ['pending', 'R', 0, 300],
    'requested',
  ],
  [
    'a request after a report of a third run without claim',
    [['pending', 'R', 0, 300], ['success', 'S', 0], ['pending'], 10],
    ['pending', 'R', 0, 300],
    'requested',
  ],
  [
    'that third run claims',
    [['pending', 'R', 0, 300], ['success', 'S', 0], ['pending'], 10],
    ['pending', 'S', 0, 300],
    'stored',
  ],

  ['no claim: a request', [['pending', 'R', 0, 300]], ['pending'], 'stored'],
  ['no claim: any result of no run', [['pending', 'R', 0, 300]], ['success'], 'stored'],
  ['no claim: another run that began later', [['pending', 'R', 5, 300]], ['success', 'S', 0], 'stored'],
  ['no claim: an older run over a claim', [['pending', 'R', 0, 300], 1], ['success', 'S', 60], 'superseded'],
  [
    'no claim: an older run over a claim that has passed',
    [['pending', 'R', 0, 10], 60],
    ['pending', 'S', 90],
    'superseded',
  ],
  ['no claim: an older run over a pending', [['pending', 'R', 0]], ['success', 'S', 60], 'superseded'],
  ['no claim: an older run over a result', [['success', 'R', 0]], ['success', 'S', 60], 'superseded'],
]

function errorOf(outcome: Outcome) {
  const [what = '', seconds] = outcome.split(', ')
  const retryAfter = seconds === undefined ? undefined : Number(seconds)
  if (what === 'late') return { code: 'report_late' }
  if (what === 'superseded') return { code: 'run_superseded' }
  if (what === 'result')
    return { code: 'claim_refused', retryAfter, message: /^This context has a result, "[a-z]+"\. / }
  if (what === 'requested')
    return { code: 'claim_refused', retryAfter: 1, message: /"pending", without a run/ }
  return {
    code: 'claim_refused',
    retryAfter,
    message: new RegExp(`"pending", by the ${what.replace(' ', ' "')}"`),
  }
}

for (const database of databases) {
  const test = (name: string, work: (t: Test) => Promise<void>) => t.test(`${database.name}: ${name}`, work)

  for (const together of [false, true])
    test(`claims as the contract says, ${together ? 'in a batch' : 'alone'}`, async (t) => {
      const { stores, id } = await openTwo(t, database)
      const send = ([state, run, ago = 0, claim]: Report, context: string, description: string, to: 0 | 1) =>
        stores[to].statuses.report({
          ...{ repositoryId: id, sha: SHA, context, state, description },
          ...(run !== undefined && { run, elapsed: ago * 1000 }),
          ...(claim !== undefined && { claim }),
        })
      const prepare = async (context: string, steps: readonly Step[]) => {
        for (const step of steps)
          if (typeof step === 'number') await passTime(stores[0], step, { context })
          else await send(step, context, 'before', 0)
      }
      /** What is stored, by context. */
      const load = async () => {
        const rows = await stores[0].engine.kysely.selectFrom('statuses').selectAll().execute()
        return new Map(rows.map((row) => [row.context, row]))
      }
      /** Prepares these rows of the table, and sends their last reports at once. */
      const compare = async (rows: readonly (typeof TABLE)[number][]) => {
        await Promise.all(rows.map(([context, steps]) => prepare(context, steps)))
        const before = await load()
        const answers = await Promise.all(
          rows.map(([context, , comes]) => send(comes, context, 'after', 1).catch((error: unknown) => error)),
        )
        const after = await load()
        return rows.map(([name, , comes, outcome], index) => {
          const stored = { before: before.get(name), after: after.get(name) }
          return { name, ...stored, answer: answers[index], comes, outcome }
        })
      }
      // So few that little of their time passes until they are sent.
      for (const rows of chunksOf(TABLE, together ? 12 : 1))
        for (const { name, before, answer, after, comes, outcome } of await compare(rows)) {
          if (outcome === 'stored') {
            const [state, run = null, , claim] = comes
            t.match(answer, { state, description: 'after' }, name)
            t.match(after, { state, run, description: 'after' }, name)
            if (claim !== undefined) t.match(after, { claim_seconds: claim, claim_run: run }, name)
            else
              t.match(
                after,
                {
                  claim_seconds: before?.claim_seconds ?? null,
                  claim_run: before?.claim_run ?? null,
                  claimed_at: before?.claimed_at ?? null,
                  claim_report: null,
                },
                name,
              )
            const until =
              answer instanceof Error || typeof answer !== 'object' || answer === null ? {} : answer
            t.equal('claimed_until' in until, claim !== undefined, name)
          } else {
            const { retryAfter, ...error } = errorOf(outcome)
            t.match(answer, { name: 'ServiceError', ...error }, name)
            const given = answer instanceof TryLater ? answer.retryAfter : undefined
            if (retryAfter === undefined) t.equal(given, undefined, name)
            else
              t.ok(
                given !== undefined && given <= retryAfter && given >= Math.max(1, retryAfter - 4),
                `${name}: ${given} s`,
              )
            t.same(after, before, `${name}: nothing has changed`)
          }
        }
    })

  test('random histories of claims end as the model says', async (t) => {
    const { stores } = await openTwo(t, database)
    const counts = await reportHistories(stores, 1, 150)
    t.comment(JSON.stringify(counts))
    t.ok(counts.stored > 500 && counts.refused > 300 && counts.unclear < 50, 'most answers are clear')
  })

  test('of many claims at once exactly one is stored, whichever server they reach', async (t) => {
    const { stores, id } = await openTwo(t, database)
    for (let round = 0; round < 10; round++) {
      const context = `${round}`
      const claims = Array.from({ length: 40 }, async (_, index) => {
        const run = `run ${index}`
        const report = { repositoryId: id, sha: SHA, context, state: 'pending', run, claim: 300 } as const
        return stores[index % 2 === 0 ? 0 : 1].statuses.report(report).then(
          () => run,
          (error: unknown) => {
            t.match(error, { code: 'claim_refused' })
            const left = error instanceof TryLater ? error.retryAfter : 0
            t.ok(left > 240 && left <= 300, `${left} s`)
            return null
          },
        )
      })
      const winners = (await Promise.all(claims)).filter((run) => typeof run === 'string')
      const row = await stores[0].engine.kysely
        .selectFrom('statuses')
        .select('run')
        .where('context', '=', context)
        .executeTakeFirst()
      t.same(winners, [row?.run], `round ${round}`)
    }
  })

  test('several users ask for another run, each by a reporter of their own', async (t) => {
    const { stores, id } = await openTwo(t, database)
    const repository = { id, owner: 'acme', name: 'repo' }
    const requested: string[] = []
    for (const name of ['ann', 'bob']) {
      const user = await asAdministrator(stores[0]).users.create(name)
      await asAdministrator(stores[0]).collaborators.set(repository, user.id, 'write')
      const by = await signIn(stores[0], user)
      const request = async (context: string, to: 0 | 1) => {
        const run = { state: 'success', run: 'a', claim: 10 } as const
        const status = await stores[to].statuses.report({ repositoryId: id, sha: SHA, context, ...run })
        return stores[to].audit.transaction(by, (change) =>
          stores[to].statuses.requestRun(change, repository, { sha: SHA, id: status?.id ?? '' }),
        )
      }
      requested.push(...(await Promise.all([request(`${name} 1`, 0), request(`${name} 2`, 1)])))
      requested.push(await request(`${name} 3`, 0))
    }
    const rows = await stores[1].statuses.listWithReporters({ repositoryId: id, sha: SHA })
    t.same(
      rows.map((row) => [row.context, row.state, row.reporter_user, row.reporter_token]),
      requested.sort().map((context) => [context, 'pending', context.slice(0, 3), null]),
    )
    t.equal(rows.length, 6)
    const reporters = await stores[0].engine.kysely.selectFrom('reporters').select('user_name').execute()
    t.same(reporters.map(({ user_name }) => user_name).sort(), ['ann', 'bob'])
  })

  test('a claim ends by the clock of the database', async (t) => {
    const clock = database === sqlite ? sqliteWithClock(t, database) : postgresWithClock(database)
    const { stores, id } = await openTwo(t, clock.database)
    const claim = (run: string, state: StatusState) =>
      stores[0].statuses.report({ repositoryId: id, sha: SHA, context: 'ci', state, run, claim: 300 })
    await clock.set(3_600)
    for (const state of ['pending', 'pending', 'success'] as const) {
      const answer = await claim('a', state)
      const left = (answer?.claimed_until ?? 0) - Date.now() / 1_000 - 3_600
      t.ok(left > 295 && left <= 300, `${state}: ${left} s`)
    }
  })

  test('a second is over when it is over', async (t) => {
    const { stores, id } = await openTwo(t, database)
    const report = (context: string, more: object) =>
      stores[0].statuses.report({ repositoryId: id, sha: SHA, context, state: 'pending', ...more })
    // Within the second, after it began: what happens until then is quick.
    await setTimeout(1_050 - (Date.now() % 1_000))
    const second = Math.floor(Date.now() / 1_000)
    await report('requested', {})
    await report('plain', { run: 'a' })
    await passTime(stores[0], 10, { context: 'plain' })
    const early = await Promise.allSettled([
      report('requested', { run: 'b', claim: 10 }),
      report('plain', { run: 'b', claim: 10 }),
    ])
    if (Math.floor(Date.now() / 1_000) === second)
      t.match(early, [{ reason: { code: 'claim_refused' } }, { reason: { code: 'claim_refused' } }])
    await setTimeout(1_010 - (Date.now() % 1_000))
    await t.rejects(report('requested', { run: 'c', claim: 10, elapsed: 500 }), { code: 'claim_refused' })
    t.match(await report('requested', { run: 'b', claim: 10 }), { state: 'pending' })
    t.match(await report('plain', { run: 'b', claim: 10 }), { state: 'pending' })
  })

  test('a pending that is reported again keeps the time from which a duration is shown', async (t) => {
    const { stores, id } = await openTwo(t, database)
    const pendingAt = async (state: StatusState, more: object) => {
      await passTime(stores[0], 10, { context: 'ci' })
      await stores[0].statuses.report({ repositoryId: id, sha: SHA, context: 'ci', state, ...more })
      const [row] = await stores[1].statuses.listWithReporters({ repositoryId: id, sha: SHA })
      return (row?.updated_at ?? 0) - (row?.pending_at ?? 0)
    }
    const near = (seconds: number, expected: number) =>
      t.ok(Math.abs(seconds - expected) <= 2, `${seconds} s, not ${expected} s`)
    near(await pendingAt('pending', { run: 'a', claim: 10 }), 0)
    near(await pendingAt('pending', { run: 'a', claim: 10 }), 10)
    near(await pendingAt('pending', { run: 'a' }), 20)
    near(await pendingAt('pending', { run: 'b' }), 0)
    near(await pendingAt('pending', { run: 'b', claim: 10 }), 10)
    near(await pendingAt('success', { run: 'b', claim: 10 }), 20)
    near(await pendingAt('pending', {}), 0)
    near(await pendingAt('pending', {}), 0)
  })
}
