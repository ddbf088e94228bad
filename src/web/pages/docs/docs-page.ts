import { allowStyle } from '../../../replies/security-headers.ts'
import { sendPage } from '../../parts/layout.ts'
import type { Pages } from '../../parts/pages.ts'
import { docsHead, docsStyle, docsView } from './docs-view.ts'
import { referenceView } from './reference.ts'

/**
 * Registers `/docs`, which renders the contract within the layout of the site, and what belongs to
 * it.
 */
export async function docsPage(pages: Pages): Promise<void> {
  pages.get('/docs', async (_request, reply) => {
    allowStyle(reply, docsStyle.toString())
    return sendPage(reply, { title: 'API docs', style: docsStyle, head: docsHead, wide: true }, docsView)
  })
  pages.get('/docs/reference', async (_request, reply) =>
    sendPage(reply, { title: 'Samples, versions and errors' }, referenceView),
  )
}
