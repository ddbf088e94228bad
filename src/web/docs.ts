import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { html } from 'hono/html'
import { page } from './layout.ts'

const file = resolve(import.meta.dirname, '../../openapi.yaml')

/** The contract as written, and what its rendering is made of. */
export async function contractFiles(app: FastifyInstance): Promise<void> {
  const yaml = readFileSync(file, 'utf8')
  await app.register(swagger, { mode: 'static', specification: { path: file, baseDir: resolve(file, '..') } })
  const json = JSON.stringify(app.swagger(), null, 2)

  app.get('/openapi.yaml', (_request, reply) => {
    reply.header('cache-control', 'no-cache').type('application/yaml; charset=utf-8').send(yaml)
  })
  app.get('/openapi.json', (_request, reply) => {
    reply.header('cache-control', 'no-cache').type('application/json; charset=utf-8').send(json)
  })
  await app.register(swaggerUi, { routePrefix: '/docs/ui' })
}

/** The contract rendered at `/docs`, in the same layout as every other page rather than in the renderer's own. */
export async function docs(app: FastifyInstance): Promise<void> {
  app.get('/docs', async (request, reply) => {
    const head = html`<link rel="stylesheet" href="/docs/ui/static/swagger-ui.css">
<link rel="stylesheet" href="/assets/docs.css">
<script src="/docs/ui/static/swagger-ui-bundle.js" defer></script>
<script src="/assets/docs.js" defer></script>`
    const content = html`<div id="docs"><noscript><p class="empty">The rendered docs need JavaScript. The contract
itself is at <a href="/openapi.yaml">/openapi.yaml</a>.</p></noscript></div>`
    const options = { title: 'API docs', visitor: request.visitor, head, wide: true }
    return reply.type('text/html; charset=utf-8').send(await page(options, content))
  })
}
