import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { etagOf, matchesEtag } from '../http/etag.ts'

const TYPES = {
  'style.css': 'text/css; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'docs.js': 'text/javascript; charset=utf-8',
  'docs.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

/** The few files that pages are made of. */
export async function assets(app: FastifyInstance): Promise<void> {
  for (const [name, type] of Object.entries(TYPES)) {
    const text = readFileSync(resolve(import.meta.dirname, 'assets', name), 'utf8')
    const etag = etagOf(text)
    app.get(`/assets/${name}`, (request, reply) => {
      reply.header('cache-control', 'no-cache').header('etag', etag)
      if (matchesEtag(request.headers['if-none-match'], etag)) reply.code(304).send()
      else reply.type(type).send(text)
    })
  }
}
