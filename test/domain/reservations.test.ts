import t from 'tap'
import {
  deletingCommand,
  noteOnResults,
  type Result,
  resultsByOthers,
} from '../../src/domain/reported-results.ts'
import {
  checkReservation,
  createReservationReader,
  isOpen,
  reportersOf,
} from '../../src/domain/reservations.ts'

t.test('who may report is whom all patterns name that match', async (t) => {
  const reservations = [
    { pattern: 'ci/*', users: [1, 2, 3] },
    { pattern: '*/all', users: [2, 3, 4] },
    { pattern: 'ci/all', users: [3] },
    { pattern: 'deploy', users: [] },
  ]
  for (const [context, users] of [
    ['lint', null],
    ['CI/all', [2, 3, 4]],
    ['ci/x', [1, 2, 3]],
    ['ci/x/all', [2, 3]],
    ['ci/all', [3]],
    ['deploy', []],
  ] as const)
    t.same(reportersOf(reservations, context), users, context)
})

t.test('a stored list is read once, and anew when it has changed', async (t) => {
  const reservationsOf = createReservationReader()
  const text = '[{"pattern":"ci","users":[1]}]'
  const first = reservationsOf(-1, text)
  t.same(first, [{ pattern: 'ci', users: [1] }])
  t.equal(reservationsOf(-1, `${text.slice(0, -1)}]`), first)
  t.same(reservationsOf(-2, '[]'), [])
  t.same(reservationsOf(-1, '[]'), [], 'of another repository with the text')
  t.same(reservationsOf(-1, text), first)
  const latest = reservationsOf(-1, text)
  for (let id = 1; id <= 1_000; id++) reservationsOf(-1 - id, '[]')
  t.not(reservationsOf(-1, text), latest, 'not kept beside those of 1,000 repositories')
  for (const damaged of ['', '{', 'null', '{}', '[1]', '[{}]', '[{"pattern":"x","users":"1"}]'])
    t.same(reportersOf(reservationsOf(-1, damaged), 'anything'), [], damaged)
})

t.test('a pattern is open unless one contains it', async (t) => {
  for (const [reserved, required, open] of [
    ['ci/*', 'ci/all', false],
    ['ci/*', 'ci/*', false],
    ['*', 'c*', false],
    ['ci/all', 'ci/*', true],
    ['ci/*', '*/all', true],
    ['a*b', 'a*b*b', false],
    ['a*b', 'a*b*', true],
    ['**', '*', false],
  ] as const)
    t.equal(isOpen([{ pattern: reserved }], required), open, `${reserved} ${required}`)
  t.equal(isOpen([], 'x'), true)
})

t.test(
  'a reservation needs room, and a user in common with each that contains it or that it contains',
  async (t) => {
    const users = Array.from({ length: 21 }, (_, id) => id)
    const others = Array.from({ length: 20 }, (_, index) => ({ pattern: `${index}`, users: [1] }))
    t.throws(() => checkReservation(others, { pattern: 'x', users: [1] }), {
      message: /has 20 patterns already/,
    })
    t.doesNotThrow(() => checkReservation(others.slice(1), { pattern: 'x', users: users.slice(1) }))
    t.throws(() => checkReservation([], { pattern: 'x', users }), { message: /21 users; at most 20/ })
    const all = [{ pattern: 'ci/*', users: [1, 2] }]
    for (const pattern of ['ci/all', '*', 'c*'])
      t.throws(() => checkReservation(all, { pattern, users: [3] }), { message: /nobody could report/ })
    t.doesNotThrow(() => checkReservation(all, { pattern: 'ci/all', users: [2, 3] }))
    t.doesNotThrow(
      () => checkReservation(all, { pattern: '*/all', users: [3] }),
      'neither contains the other',
    )
  },
)

t.test('results by others are found by the name, and by when the user got it', async (t) => {
  const result = (context: string, user: string | null, reportedAt: number, sha = 'a'): Result => ({
    sha,
    context,
    user,
    reportedAt,
  })
  const own = result('ci/all', 'ci-bot', 100)
  const others = [
    result('ci/all', 'ci-bot', 99),
    result('ci/all', 'CI-bot', 100),
    result('ci/x', null, 100),
    result('ci/y', 'writer', 200, 'b'),
  ]
  const reservation = { pattern: 'ci/*', users: [{ name: 'ci-bot', createdAt: 100 }] }
  t.same(resultsByOthers(reservation, [own, ...others, result('lint', 'writer', 1)]), others)
  t.match(noteOnResults(others, 30), /^2 of the newest 30 commits .* have a result/)
  t.match(noteOnResults(others.slice(0, 1), 1), /^1 of the newest 1 commits .* has a result/)
  t.equal(noteOnResults([], 30), null)
  t.equal(
    deletingCommand('acme/rocket', result("it's", null, 1)),
    `commit-status-admin status delete acme/rocket a 'it'\\''s'`,
  )
})
