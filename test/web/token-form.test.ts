import t from 'tap'
import { readTokenForm } from '../../src/web/pages/tokens/form.ts'

const NOW = Date.parse('2026-01-31T12:00:00Z')

function read(fields: Record<string, string>, maxLifetime: number | null = null) {
  const { form, expiresAt } = readTokenForm(
    new URLSearchParams({ name: 'CI', expiry: 'date', ...fields }),
    NOW,
    [{ id: 1 }, { id: 2 }],
    maxLifetime,
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

  const most = 90 * 24 * 3_600_000
  t.same(read({ expiry: 'none' }, most), { errors: {}, expiresAt: NOW + most }, 'as late as possible')
  t.same(read({ expiry: '90' }, most), { errors: {}, expiresAt: NOW + most })
  t.same(read({ date: '2026-05-01' }, most).errors, {})
  const message = 'A token may expire at 2026-05-01T12:00:00.000Z at the latest.'
  t.same(read({ expiry: '365' }, most).errors, { expiry: message })
  t.same(read({ date: '2026-05-02' }, most).errors, { date: message })
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

t.test('limits', async (t) => {
  const limitsFrom = (fields: string) =>
    readTokenForm(new URLSearchParams(`name=CI&expiry=none&${fields}`), NOW, [{ id: 1 }, { id: 2 }], null)
  t.same(limitsFrom('push=yes').limits, { repositories: null, contexts: null, push: true })
  t.same(
    limitsFrom('repository=2&repository=1&repository=2&contexts=ci%2F*%0D%0A%0D%0A%20a b%0D%0A').limits,
    {
      repositories: [2, 1],
      contexts: ['ci/*', 'a b'],
      push: false,
    },
  )
  for (const choice of ['3', '', 'x', '1e0x', '1&repository=3'])
    t.match(limitsFrom(`repository=${choice}`).form.errors, { repositories: /no longer write/ }, choice)
  t.match(limitsFrom(`contexts=${'x'.repeat(256)}`).form.errors, {
    contexts: 'The context pattern is 256 characters long; at most 255 are allowed.',
  })
  t.match(limitsFrom(`contexts=${'a%0A'.repeat(21)}`).form.errors, { contexts: /at most 20 are allowed/ })
  t.same(limitsFrom(`contexts=${'a%0A'.repeat(20)}`).form.errors, {})
})
