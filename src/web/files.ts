import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { etagOf, matchesEtag } from '../http/etag.ts'

const ASSETS = resolve(import.meta.dirname, 'assets')
/** The renderer of the contract, without the page and the routes that its package brings. */
const RENDERER = fileURLToPath(new URL('static/', import.meta.resolve('@fastify/swagger-ui')))
const CONTRACT = resolve(import.meta.dirname, '../../openapi.yaml')

const TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  svg: 'image/svg+xml',
  yaml: 'application/yaml; charset=utf-8',
}

/** The few files that pages are made of, and the contract as written. They are in memory: none is larger than 2 MB. */
export async function files(app: FastifyInstance): Promise<void> {
  const serve = (url: string, text: string) => {
    const etag = etagOf(text)
    const type = TYPES[url.slice(url.lastIndexOf('.') + 1)] ?? 'text/plain; charset=utf-8'
    app.get(url, (request, reply) => {
      reply.header('cache-control', 'no-cache').header('etag', etag)
      if (matchesEtag(request.headers['if-none-match'], etag)) reply.code(304).send()
      else reply.type(type).send(text)
    })
  }
  const asset = (folder: string, name: string) =>
    serve(`/assets/${name}`, readFileSync(resolve(folder, name), 'utf8'))

  for (const name of ['style.css', 'page.js', 'icon.svg', 'docs.css', 'docs.js']) asset(ASSETS, name)
  for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) asset(RENDERER, name)

  serve('/openapi.yaml', readFileSync(CONTRACT, 'utf8'))
  await app.register(swagger, {
    mode: 'static',
    specification: { path: CONTRACT, baseDir: resolve(CONTRACT, '..') },
  })
  serve('/openapi.json', JSON.stringify(app.swagger(), null, 2))
}
