import t from 'tap'
import { html } from '../../src/web/parts/html.ts'

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
