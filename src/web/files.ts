import { hash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import swagger, { type StaticDocumentSpec } from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../errors.ts'
import { etagOf, matchesEtag } from '../http/etag.ts'
import { boundedMemoize, memoizeByObject, memoizePromise } from '../util/memoize.ts'
import { RECIPES_FOLDER, RECIPES_INDEX, recipeFiles } from './pages/docs/recipes.ts'
import { firstOf, type Query } from './routing/query.ts'

const compress = promisify(gzip)

const ASSETS = resolve(import.meta.dirname, 'assets')
/** Assets of Swagger UI. Its own page and routes are not used. */
const SWAGGER_UI = fileURLToPath(new URL('static/', import.meta.resolve('@fastify/swagger-ui')))
/** Names of these assets change with their content, so that browsers keep them for a year. */
const KEPT = 'public, max-age=31536000, immutable'
/** Bytes from which on compression is worth it. */
const COMPRESSED_FROM = 1_024
const CONTRACT = resolve(import.meta.dirname, '../../openapi.yaml')
/** The contract as JSON, which takes a fiftieth of the time to read. */
const DOCUMENT = resolve(import.meta.dirname, '../../generated/openapi.json')

/** The package of the TypeScript client, which `npm run prepare` builds. */
const CLIENT_PACKAGE = resolve(import.meta.dirname, '../../clients/typescript/commit-status-client.tgz')

/** Clients for CI jobs and documents, by asset name. */
const DOWNLOADS = {
  'commit-status.sh': resolve(import.meta.dirname, '../../clients/shell/commit-status'),
  'commit-status-client.tgz': CLIENT_PACKAGE,
  'client.md': resolve(import.meta.dirname, '../../clients/typescript/README.md'),
  'SKILL.md': resolve(import.meta.dirname, '../../clients/typescript/SKILL.md'),
  'changelog.md': resolve(import.meta.dirname, '../../CHANGELOG.md'),
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
  yml: 'application/yaml; charset=utf-8',
}

/** Accepts gzip, and does not refuse it. */
const GZIP = /(?:^|,)\s*gzip\s*(?:,|$|;\s*q=(?:1|0\.[0-9]*[1-9]))/i

/** More than there are. */
const MOST_FILES = 100

/** Returns a file as it is sent. All responses share the same bytes; a string would be copied for each. */
const fileOf = (content: Buffer) => ({
  content,
  etag: etagOf(content),
  // Once, when a browser asks for it: most servers are never asked for most files.
  compressed: memoizePromise(() => compress(content, { level: constants.Z_BEST_COMPRESSION })),
})
/** The same of a file on disk. It does not change while the server is running. */
const fileAt = boundedMemoize(MOST_FILES, (path: string) => fileOf(readFileSync(path)))
const documentAt = boundedMemoize(
  1,
  // The generator writes it from a contract that is an OpenAPI document.
  (path: string) => JSON.parse(readFileSync(path, 'utf8')) as StaticDocumentSpec['document'],
)
const documentFile = memoizeByObject((document: object) =>
  fileOf(Buffer.from(JSON.stringify(document, null, 2))),
)

/** Returns the path of an asset of Swagger UI that changes with its content. */
export function swaggerUiPath(name: 'swagger-ui.css' | 'swagger-ui-bundle.js'): string {
  return `/assets/${name}?v=${versionOf(fileAt(resolve(SWAGGER_UI, name)).etag)}`
}

/** Returns the SHA-256 of the package of the TypeScript client, in hex; null if it is not built. */
export function clientDigest(): string | null {
  return existsSync(CLIENT_PACKAGE) ? hash('sha256', readFileSync(CLIENT_PACKAGE)) : null
}

function versionOf(etag: string): string {
  return etag.slice('W/"'.length, -1)
}

/** Serves static assets, the contract and the clients from memory. No file is larger than 2 MB. */
export async function serveFiles(app: FastifyInstance): Promise<void> {
  const serve = (url: string, { content, etag, compressed }: ReturnType<typeof fileOf>) => {
    const isText = content.length >= COMPRESSED_FROM && !url.endsWith('.tgz')
    const type = TYPES[url.slice(url.lastIndexOf('.') + 1)] ?? 'text/plain; charset=utf-8'
    app.get<{ Querystring: Query<'v'> }>(url, async (request, reply) => {
      const isKept = firstOf(request.query.v) === versionOf(etag)
      reply.header('cache-control', isKept ? KEPT : 'no-cache').header('etag', etag)
      if (isText) reply.header('vary', 'Accept-Encoding')
      if (matchesEtag(request.headers['if-none-match'], etag)) return reply.code(304).send()
      reply.type(type)
      if (!isText || !GZIP.test(request.headers['accept-encoding'] ?? '')) return reply.send(content)
      return reply.header('content-encoding', 'gzip').send(await compressed())
    })
  }
  const asset = (folder: string, name: string) => serve(`/assets/${name}`, fileAt(resolve(folder, name)))

  for (const name of ['style.css', 'page.js', 'ages.js', 'live.js', 'docs.css', 'docs.js'])
    asset(ASSETS, name)
  for (const name of ['icon', 'icon-failure', 'icon-pending', 'icon-success']) asset(ASSETS, `${name}.svg`)
  for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) asset(SWAGGER_UI, name)

  for (const [name, path] of Object.entries(DOWNLOADS)) {
    if (existsSync(path)) serve(`/assets/${name}`, fileAt(path))
    else app.get(`/assets/${name}`, () => Promise.reject(new ServiceError('path_unknown', NOT_BUILT)))
  }
  for (const name of recipeFiles()) serve(`/assets/recipes/${name}`, fileAt(resolve(RECIPES_FOLDER, name)))
  // Where version 0.4.0 had it; its links lead to files beside it.
  app.get('/assets/recipes.md', (_request, reply) => reply.redirect(`/assets/recipes/${RECIPES_INDEX}`, 301))

  serve('/openapi.yaml', fileAt(CONTRACT))
  await app.register(swagger, { mode: 'static', specification: { document: documentAt(DOCUMENT) } })
  serve('/openapi.json', documentFile(app.swagger()))
}
