import t from 'tap'
import { formatDuration, parseDuration } from '../../src/cli/duration.ts'
import { hasColors, paint, plain } from '../../src/cli/terminal.ts'
import { UsageError } from '../../src/cli/usage-error.ts'

t.test('colors are for terminals whose user wants them', async (t) => {
  const terminal = { isTTY: true }
  t.ok(hasColors(terminal, {}))
  t.ok(hasColors(terminal, { NO_COLOR: '' }), 'empty is as good as unset')
  t.notOk(hasColors(terminal, { NO_COLOR: '1' }))
  t.notOk(hasColors(terminal, { TERM: 'dumb' }))
  t.notOk(hasColors({ isTTY: false }, {}))
  t.ok(hasColors({ isTTY: false }, { FORCE_COLOR: '1' }))
  t.ok(hasColors({ isTTY: false }, { FORCE_COLOR: '3', TERM: 'dumb' }))
  for (const FORCE_COLOR of ['0', 'false']) t.notOk(hasColors(terminal, { FORCE_COLOR }))
  t.notOk(hasColors(terminal, { NO_COLOR: '1', FORCE_COLOR: '1' }))
  t.equal(paint('failure', 'failure', true), '\x1b[31mfailure\x1b[0m')
  t.equal(paint('failure', 'failure', false), 'failure')
})

t.test('text of others steers no terminal', async (t) => {
  t.equal(plain('a\x1b[2Jb\u009bc\r\nd\u202ee\u2028f'), 'a [2Jb c d e f')
  t.equal(plain('::error::a ::b'), ':error::a ::b')
  t.equal(plain('\n\u2028\t ::warning::'), '  :warning::')
  t.equal(plain('###[error]'), '#[error]')
  t.equal(paint(':: \x1b[2J', 'pending', false), ':  [2J')
  t.equal(plain('Zażółć 🚀 テスト'), 'Zażółć 🚀 テスト')
})

t.test('durations', async (t) => {
  t.equal(parseDuration('90s', '--timeout'), 90_000)
  t.equal(parseDuration('10m', '--timeout'), 600_000)
  t.equal(parseDuration('1.5h', '--timeout'), 5_400_000)
  for (const text of ['', '10', 'm', '-1s', '1w', '600h', '1e3s']) {
    t.throws(() => parseDuration(text, '--timeout'), UsageError)
  }
  t.equal(formatDuration(420), '0.4 s')
  t.equal(formatDuration(59_400), '59 s')
  t.equal(formatDuration(59_900), '1 min 0 s')
  t.equal(formatDuration(125_000), '2 min 5 s')
  t.equal(formatDuration(3_780_000), '1 h 3 min')
})
