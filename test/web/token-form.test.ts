import t from 'tap'
import { readTokenForm } from '../../src/web/token-form.ts'

const NOW = Date.parse('2026-01-31T12:00:00Z')

function read(fields: Record<string, string>) {
  const { form, expiresAt } = readTokenForm(
    new URLSearchParams({ name: 'CI', expiry: 'date', ...fields }),
    NOW,
  )
  return { errors: form.errors, expiresAt }
}

t.test('expiry dates', async (t) => {
  t.same(read({ date: '2026-02-28' }), { errors: {}, expiresAt: Date.parse('2026-02-28T00:00:00Z') })
  t.same(read({ date: '2028-02-29' }).errors, {}, 'a leap day')
  for (const date of [
    '',
    'soon',
    '2026-02-29',
    '2026-02-31',
    '2026-13-01',
    '2026-02-00',
    '2026-2-1',
    '02/28/2026',
  ])
    t.same(read({ date }).errors, { date: 'Choose the expiry date.' }, date || 'no date')
  for (const date of ['2026-01-31', '2025-12-31', '0001-01-01'])
    t.same(read({ date }).errors, { date: 'Choose a date in the future.' }, date)
  t.same(read({ expiry: '90' }), { errors: {}, expiresAt: NOW + 90 * 24 * 3_600_000 })
  t.same(read({ expiry: 'none' }), { errors: {}, expiresAt: null })
  t.same(read({ expiry: '91' }).errors, { expiry: 'Choose when the token expires.' })
})

t.test('names', async (t) => {
  for (const [name, error] of [
    ['  ', 'Enter a name.'],
    ['x'.repeat(101), 'Use at most 100 characters.'],
    ['a\u0000', 'A name must not contain control characters.'],
  ] as const)
    t.same(read({ name, expiry: 'none' }).errors, { name: error })
  t.same(read({ name: '\u{1F680}'.repeat(100), expiry: 'none' }).errors, {})
})
