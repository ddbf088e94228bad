import t from 'tap'
import { parseExpiry } from '../../src/cli/parts/arguments.ts'

t.test('--expires', async (t) => {
  const now = Date.parse('2030-06-15T12:00:00Z')
  const at = (text: string) => Date.parse(text)
  const good = [
    ['1s', now + 1_000],
    ['5m', now + 300_000],
    ['2h', now + 7_200_000],
    ['90d', now + 90 * 86_400_000],
    ['2030-06-16', at('2030-06-16T00:00:00Z')],
    ['2032-02-29', at('2032-02-29T00:00:00Z')],
    ['2030-06-15T12:00:01Z', now + 1_000],
    ['2030-06-15T12:00:00.001Z', now + 1],
    ['2030-06-15T14:30+02:00', now + 1_800_000],
    ['2030-06-15T07:00:01-05:00', now + 1_000],
  ] as const
  for (const [text, moment] of good) t.equal(parseExpiry(text, now), moment, text)
  const past = ['0s', '2030-06-15', '2030-06-15T12:00:00Z', '2030-06-15T13:59:59+02:00', '1999-12-31']
  for (const text of past)
    t.throws(() => parseExpiry(text, now), { name: 'UsageError', message: /in the past/ }, text)
  const wrong = [
    '',
    '90',
    'd',
    '-1d',
    '1.5d',
    '1w',
    '90 d',
    '90d ',
    '2031-02-29',
    '2031-13-01',
    '2031-6-1',
    '20310601',
  ]
  const ambiguous = [
    '2031-01-01T00:00:00',
    '2031-01-01 ',
    '2031-01-01T25:00Z',
    'tomorrow',
    `${'9'.repeat(20)}d`,
  ]
  for (const text of [...wrong, ...ambiguous]) {
    t.throws(() => parseExpiry(text, now), { name: 'UsageError', message: /is not a time \(expected/ }, text)
  }
})
