import t from 'tap'
import { html } from '../../src/web/text/html.ts'

t.test('values are escaped, templates are not', async (t) => {
  const text = `<b title="x">'&amp;'</b>`
  const escaped = '&lt;b title=&quot;x&quot;&gt;&#39;&amp;amp;&#39;&lt;/b&gt;'
  t.equal(html`<p class="${text}">${text}</p>`.toString(), `<p class="${escaped}">${escaped}</p>`)
  t.equal(
    html`<ul>${[html`<li>${1}</li>`, ['<', html`&nbsp;`]]}</ul>`.toString(),
    '<ul><li>1</li>&lt;&nbsp;</ul>',
  )
  t.equal(html`${undefined}${''}${[]}`.toString(), '')
})

t.test('rows are rendered when they are written, each time', async (t) => {
  let rendered = 0
  const rows = html`${[1, 2].map((row) => () => html`<li>${row}, ${++rendered}</li>`)}`
  t.equal(rendered, 0)
  t.equal(rows.toString(), '<li>1, 1</li><li>2, 2</li>')
  t.equal(rows.toString(), '<li>1, 3</li><li>2, 4</li>')
})

t.test('a large page is complete, whatever its characters', async (t) => {
  for (const character of ['x', 'é', '…', '😀', '&']) {
    const text = character.repeat(50_001)
    const items = [text, ...Array.from({ length: 20_000 }, () => character)]
    const expected = `<p>${items.join('').replaceAll('&', '&amp;')}</p>`
    t.ok(html`<p>${items}</p>`.toBuffer().equals(Buffer.from(expected)), character)
  }
})
