import type { FastifyInstance } from 'fastify'
import { sendPage } from '../../parts/layout.ts'
import { docsHead, docsView } from './view.ts'

/** Registers `/docs`, which renders the contract within the layout of the site. */
export async function docsPage(app: FastifyInstance): Promise<void> {
  app.get('/docs', async (_request, reply) =>
    sendPage(reply, { title: 'API docs', head: docsHead, wide: true }, docsView),
  )
}
