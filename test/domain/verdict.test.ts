import t from 'tap'
import {
  explanationSteps,
  type ReportedContext,
  type VerdictFinder,
  verdictFinder,
  verdictSteps,
} from '../../src/domain/verdict.ts'
import { createRandom, type Random } from '../helpers/random.ts'

const RUNS = 100_000
const STATES = ['pending', 'success', 'failure', 'error'] as const

function reports(states: Record<string, ReportedContext['state']>): ReportedContext[] {
  return Object.entries(states).map(([context, state]) => ({ context, state }))
}

t.test('truth table', async (t) => {
  const table: [statuses: Record<string, ReportedContext['state']>, patterns: string[], verdict: string][] = [
    [{}, [], 'pending'],
    [{}, ['a'], 'pending'],
    [{}, ['*'], 'pending'],
    [{ a: 'success' }, [], 'success'],
    [{ a: 'pending' }, [], 'pending'],
    [{ a: 'failure' }, [], 'failure'],
    [{ a: 'error' }, [], 'failure'],
    [{ a: 'success', b: 'pending' }, [], 'pending'],
    [{ a: 'success', b: 'pending', c: 'error' }, [], 'failure'],
    [{ a: 'success' }, ['a'], 'success'],
    [{ a: 'pending' }, ['a'], 'pending'],
    [{ a: 'failure' }, ['a'], 'failure'],
    [{ a: 'error' }, ['a'], 'failure'],
    // Contexts that nobody requires do not count.
    [{ a: 'success', b: 'pending' }, ['a'], 'success'],
    [{ a: 'success', b: 'failure' }, ['a'], 'success'],
    [{ a: 'pending', b: 'error' }, ['a'], 'pending'],
    // A required check that has not begun is not there.
    [{ a: 'success' }, ['b'], 'pending'],
    [{ a: 'success' }, ['a', 'b'], 'pending'],
    [{ a: 'success', 'b/1': 'success' }, ['a', 'b/*'], 'success'],
    [{ a: 'success', b: 'success' }, ['a', 'b/*'], 'pending'],
    [{ a: 'failure' }, ['a', 'b'], 'failure'],
    [{ a: 'success', 'b/1': 'success', 'b/2': 'pending' }, ['a', 'b/*'], 'pending'],
    [{ a: 'success', 'b/1': 'error', 'b/2': 'pending' }, ['a', 'b/*'], 'failure'],
    // A pattern matches whole contexts, exactly.
    [{ 'a/b/c': 'success' }, ['a/*'], 'success'],
    [{ 'ci/a': 'success' }, ['a'], 'pending'],
    [{ A: 'success' }, ['a'], 'pending'],
    [{ a: 'success' }, ['*'], 'success'],
  ]
  for (const [statuses, patterns, verdict] of table)
    t.equal(
      verdictOf(reports(statuses), patterns).verdict,
      verdict,
      `${JSON.stringify(statuses)} ${patterns}`,
    )
})

t.test('says how each pattern stands', async (t) => {
  t.same(
    verdictOf(reports({ 'ci/build': 'success', 'ci/lint': 'success', docs: 'pending' }), ['ci/*', 'lint']),
    {
      verdict: 'pending',
      state: 'pending',
      required: [
        { pattern: 'ci/*', state: 'success', contexts: ['ci/build', 'ci/lint'] },
        { pattern: 'lint', state: null, contexts: [] },
      ],
    },
  )
  t.same(verdictOf([], []), { verdict: 'pending', state: null, required: [] })
})

/** The verdict by its definition, without what the server uses. */
function model(statuses: readonly ReportedContext[], patterns: readonly string[]) {
  const matchers = patterns.map((pattern) => {
    const parts = pattern.split('*').map((part) => part.replace(/[^\w]/g, '\\$&'))
    return new RegExp(`^${parts.join('[^]*')}$`)
  })
  let missing = statuses.length === 0
  for (const matcher of matchers) missing ||= !statuses.some(({ context }) => matcher.test(context))
  const counted = statuses.filter(
    ({ context }) => matchers.length === 0 || matchers.some((matcher) => matcher.test(context)),
  )
  const states = new Set(counted.map(({ state }) => state))
  const verdict =
    states.has('failure') || states.has('error')
      ? 'failure'
      : states.has('pending') || missing
        ? 'pending'
        : 'success'
  return { verdict, missing }
}

function verdictOf(...args: Parameters<typeof verdictSteps>) {
  return lastOf(verdictSteps(...args))
}

function drawText(random: Random, letters: readonly string[]): string {
  return Array.from({ length: 1 + random.below(3) }, () => random.pick(letters)).join('')
}

/** Runs a generator to its end. */
function lastOf<Value>(steps: Generator<undefined, Value, undefined>): Value {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

t.test('a verdict takes steps of at most a hundred comparisons', (t) => {
  const reported = Array.from({ length: 1_000 }, (_, index) => ({
    context: `${index}`,
    state: 'success' as const,
  }))
  const compared: number[] = []
  let count = 0
  const counted = reported.map((one) => ({
    get context() {
      count++
      return one.context
    },
    state: one.state,
  }))
  const patterns = Array.from({ length: 100 }, (_, index) => `no ${index}`)
  for (const _ of explanationSteps(counted, patterns)) {
    compared.push(count)
    count = 0
  }
  t.equal(Math.max(...compared), 100)
  t.equal(
    compared.reduce((sum, each) => sum + each, 0),
    100_000,
  )
  t.end()
})

t.test('a finder compares each name once, also with many patterns', (t) => {
  const patterns = Array.from({ length: 150 }, (_, index) => `c${index}`)
  const find = verdictFinder(patterns)
  const statuses = patterns.map((context) => ({ context, state: 'success' as const }))
  t.equal([...find(statuses)].length, 150, 'a step each')
  t.equal([...find(statuses)].length, 0)
  t.equal(lastOf(find(statuses)), 'success')
  t.equal(lastOf(find(statuses.slice(1))), 'pending')
  const many = Array.from({ length: 6_000 }, (_, index) => ({
    context: `d${index}`,
    state: 'error' as const,
  }))
  t.equal(lastOf(find([...many, ...statuses])), 'success', 'names are forgotten, and compared again')
  t.end()
})

t.test(`${RUNS} random cases agree with a model`, async (t) => {
  const random = createRandom(17)
  const seen = { pending: 0, success: 0, failure: 0, missing: 0 }
  const wrong: object[] = []
  // Few lists of patterns, so that finders know names of earlier cases.
  const finders = new Map<string, VerdictFinder>()
  const finderOf = (patterns: string[], statuses: ReportedContext[]) => {
    const finder = finders.get(patterns.join()) ?? verdictFinder(patterns)
    finders.set(patterns.join(), finder)
    return lastOf(finder(statuses))
  }
  for (let run = 0; run < RUNS; run++) {
    const contexts = new Set(
      Array.from({ length: random.below(4) }, () => drawText(random, ['a', 'b', '/', '.'])),
    )
    // Mostly successes, or hardly any case would reach that verdict.
    const statuses = [...contexts].sort().map((context) => ({
      context,
      state: random.onceIn(4) ? random.pick(STATES) : ('success' as const),
    }))
    const patterns = [
      ...new Set(Array.from({ length: random.below(3) }, () => drawText(random, ['a', 'b', '/', '.', '*']))),
    ]
    const { verdict } = verdictOf(statuses, patterns)
    const expected = model(statuses, patterns)
    seen[verdict]++
    if (expected.missing) seen.missing++
    const found = patterns.length > 0 ? finderOf(patterns, statuses) : verdict
    if (verdict !== expected.verdict || found !== verdict || (expected.missing && verdict === 'success'))
      wrong.push({ statuses, patterns, verdict, expected })
  }
  t.same(wrong.slice(0, 3), [])
  for (const [what, count] of Object.entries(seen)) t.ok(count > RUNS / 100, `${what}: ${count}`)
})
