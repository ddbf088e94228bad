import t from 'tap'
import { decideWait, type Decidable as Status, type WaitRules } from '../src/decide-wait.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z')
const SECOND = 1_000
const HOUR = 3_600 * SECOND
const rules: WaitRules = { require: [], only: false, settle: 10 * SECOND, stalled: undefined }

/** A status of which the latest report is so many milliseconds old. */
function status(context: string, state: Status['state'], age: number): Status {
  return { context, state, updated_at: new Date(NOW - age).toISOString().replace('.000', '') }
}

t.test('what CI authors met', (t) => {
  const cases: [name: string, statuses: Status[], changed: Partial<WaitRules>, expected: string][] = [
    [
      'a failed context ends the wait, though another required one is missing',
      [status('ci/build', 'failure', 0)],
      { require: ['ci/build', 'ci/test'] },
      'failure',
    ],
    [
      'an optional failure counts as in the combined state',
      [status('ci/build', 'success', 0), status('nightly', 'failure', 0)],
      { require: ['ci/build'] },
      'failure',
    ],
    [
      'unless only the required ones are asked for',
      [status('ci/build', 'success', 0), status('nightly', 'failure', 0)],
      { require: ['ci/build'], only: true },
      'success',
    ],
    [
      'nor does an abandoned context hold it then',
      [status('ci/build', 'success', 0), status('abandoned', 'pending', 900 * HOUR)],
      { require: ['ci/build'], only: true, stalled: HOUR },
      'success',
    ],
    [
      'a context counts for each pattern that it matches',
      [status('ci/a', 'success', 10 * SECOND)],
      { require: ['ci/*', 'ci/a'], only: true },
      'success',
    ],
    ['the first of many contexts succeeds', [status('ci/a', 'success', 9 * SECOND)], {}, 'waiting'],
    ['nothing new for the time to settle', [status('ci/a', 'success', 10 * SECOND)], {}, 'success'],
    ['exact contexts need not settle', [status('ci/a', 'success', 0)], { require: ['ci/a'] }, 'success'],
    ['patterns must settle', [status('ci/a', 'success', 0)], { require: ['ci/*'] }, 'waiting'],
    [
      'as must contexts that no pattern matches',
      [status('ci/a', 'success', HOUR), status('docs', 'success', 0)],
      { require: ['ci/a'] },
      'waiting',
    ],
    ['exactly the age is not older', [status('a', 'pending', HOUR)], { stalled: HOUR }, 'waiting'],
    ['a stalled check', [status('a', 'pending', HOUR + SECOND)], { stalled: HOUR }, 'stalled'],
    [
      'failure comes before stalled',
      [status('a', 'pending', 2 * HOUR), status('b', 'error', 0)],
      { stalled: HOUR },
      'failure',
    ],
    ['nothing is reported', [], {}, 'waiting'],
    [
      'a report from the future settles too, once its time has come',
      [status('a', 'success', -5 * SECOND)],
      {},
      'waiting',
    ],
  ]
  for (const [name, statuses, changed, expected] of cases) {
    t.equal(decideWait(statuses, { ...rules, ...changed }, NOW, false).outcome, expected, name)
  }
  const { changesIn } = decideWait([status('a', 'success', 4 * SECOND)], rules, NOW, false)
  t.equal(changesIn, 6 * SECOND, 'it says when to look again')
  const pending = decideWait([status('a', 'pending', HOUR)], { ...rules, stalled: HOUR }, NOW, false)
  t.equal(pending.changesIn, 1, 'then it is older')
  const failed = decideWait([status('a', 'error', 0), status('b', 'success', 0)], rules, NOW, false)
  t.strictSame(
    failed.decisive.map(({ context }) => context),
    ['a'],
  )
  t.strictSame(decideWait([], { ...rules, require: ['x*', 'y'] }, NOW, true).missing, ['x*', 'y'])
  t.end()
})

/** The rules once more, as single conditions on booleans. */
function expected(all: Status[], { require, only, stalled }: WaitRules, timedOut: boolean): string {
  const isExact = (context: string) => require.includes(context)
  const isMatched = (context: string) =>
    isExact(context) || (require.includes('ci/*') && context.startsWith('ci/'))
  const counted = all.filter(({ context }) => !only || isMatched(context))
  const complete =
    (!require.includes('a') || all.some(({ context }) => context === 'a')) &&
    (!require.includes('ci/*') || all.some(({ context }) => context.startsWith('ci/')))
  const isOld = ({ updated_at }: Status) => Date.parse(updated_at) <= NOW - 2 * HOUR
  const isFresh = ({ updated_at }: Status) => Date.parse(updated_at) === NOW
  if (counted.some(({ state }) => state === 'failure' || state === 'error')) return 'failure'
  if (counted.length > 0 && complete && counted.every(({ state }) => state === 'success')) {
    const settled = !counted.some((each) => isFresh(each) && !isExact(each.context))
    return settled || timedOut ? 'success' : 'waiting'
  }
  if (stalled !== undefined && counted.some((each) => each.state === 'pending' && isOld(each)))
    return 'stalled'
  if (!timedOut) return 'waiting'
  return complete ? 'pending' : 'missing'
}

t.test('every combination of states, ages, patterns and options', (t) => {
  const reports: ((context: string) => Status)[] = [
    (context) => status(context, 'pending', 0),
    (context) => status(context, 'pending', 2 * HOUR),
    (context) => status(context, 'success', 0),
    (context) => status(context, 'success', 2 * HOUR),
    (context) => status(context, 'failure', 0),
    (context) => status(context, 'error', 2 * HOUR),
  ]
  const choices = (context: string) => [[], ...reports.map((report) => [report(context)])]
  const wrong: unknown[] = []
  let count = 0
  for (const a of choices('a'))
    for (const ci of choices('ci/b'))
      for (const other of choices('other'))
        for (const require of [[], ['a'], ['ci/*'], ['a', 'ci/*']])
          for (const only of require.length > 0 ? [false, true] : [false])
            for (const stalled of [undefined, HOUR])
              for (const timedOut of [false, true]) {
                const statuses = [...a, ...ci, ...other]
                const given = { ...rules, require, only, stalled }
                const { outcome } = decideWait(statuses, given, NOW, timedOut)
                count++
                if (outcome !== expected(statuses, given, timedOut))
                  wrong.push({ statuses, given, timedOut, outcome })
              }
  t.equal(count, 7 ** 3 * 7 * 4)
  t.strictSame(wrong, [])
  t.end()
})
