import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../errors.ts'
import { etagOf, matchesEtag } from '../http/etag.ts'

const ASSETS = resolve(import.meta.dirname, 'assets')
/** Assets of Swagger UI. Its own page and routes are not used. */
const SWAGGER_UI = fileURLToPath(new URL('static/', import.meta.resolve('@fastify/swagger-ui')))
const CONTRACT = resolve(import.meta.dirname, '../../openapi.yaml')
/** The contract as JSON, which takes a fiftieth of the time to read. */
const DOCUMENT = resolve(import.meta.dirname, '../../generated/openapi.json')

/** Clients for CI jobs and documents, by asset name. `npm run prepare` builds the package. */
const DOWNLOADS = {
  'commit-status.sh': resolve(import.meta.dirname, '../../clients/shell/commit-status'),
  'commit-status-client.tgz': resolve(
    import.meta.dirname,
    '../../clients/typescript/commit-status-client.tgz',
  ),
  'client.md': resolve(import.meta.dirname, '../../clients/typescript/README.md'),
  'SKILL.md': resolve(import.meta.dirname, '../../clients/typescript/SKILL.md'),
  'changelog.md': resolve(import.meta.dirname, '../../CHANGELOG.md'),
  'recipes.md': resolve(import.meta.dirname, '../../clients/recipes/README.md'),
}

const NOT_BUILT =
  'The client package has not been built. An administrator can build it with "npm run prepare" in the server folder.'

const TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  sh: 'text/x-shellscript; charset=utf-8',
  svg: 'image/svg+xml',
  tgz: 'application/gzip',
  yaml: 'application/yaml; charset=utf-8',
}

/** Serves static assets, the contract and the clients from memory. No file is larger than 2 MB. */
export async function files(app: FastifyInstance): Promise<void> {
  // All responses share the same bytes; a string would be copied for each.
  const serve = (url: string, content: Buffer) => {
    const etag = etagOf(content)
    const type = TYPES[url.slice(url.lastIndexOf('.') + 1)] ?? 'text/plain; charset=utf-8'
    app.get(url, (request, reply) => {
      reply.header('cache-control', 'no-cache').header('etag', etag)
      if (matchesEtag(request.headers['if-none-match'], etag)) reply.code(304).send()
      else reply.type(type).send(content)
    })
  }
  const asset = (folder: string, name: string) =>
    serve(`/assets/${name}`, readFileSync(resolve(folder, name)))

  for (const name of ['style.css', 'page.js', 'ages.js', 'live.js', 'docs.css', 'docs.js'])
    asset(ASSETS, name)
  for (const name of ['icon', 'icon-failure', 'icon-pending', 'icon-success']) asset(ASSETS, `${name}.svg`)
  for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) asset(SWAGGER_UI, name)

  for (const [name, path] of Object.entries(DOWNLOADS)) {
    if (existsSync(path)) serve(`/assets/${name}`, readFileSync(path))
    else app.get(`/assets/${name}`, () => Promise.reject(new ServiceError('path_unknown', NOT_BUILT)))
  }

  serve('/openapi.yaml', readFileSync(CONTRACT))
  await app.register(swagger, {
    mode: 'static',
    specification: { path: DOCUMENT, baseDir: resolve(DOCUMENT, '..') },
  })
  serve('/openapi.json', Buffer.from(JSON.stringify(app.swagger(), null, 2)))
}
