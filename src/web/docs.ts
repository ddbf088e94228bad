import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'

const file = resolve(import.meta.dirname, '../../openapi.yaml')

/** What the page may load: only from here, and no script or style but its own files. */
const CSP = {
  'default-src': ["'none'"],
  'script-src': ["'self'"],
  'style-src': ["'self'"],
  'img-src': ["'self'", 'data:'],
  'connect-src': ["'self'"],
  'base-uri': ["'none'"],
  'form-action': ["'none'"],
  'frame-ancestors': ["'none'"],
}

/** The contract as written, and rendered under `/docs`. */
export async function docs(app: FastifyInstance): Promise<void> {
  const yaml = readFileSync(file, 'utf8')
  await app.register(swagger, { mode: 'static', specification: { path: file, baseDir: resolve(file, '..') } })
  const json = JSON.stringify(app.swagger(), null, 2)

  app.get('/openapi.yaml', (_request, reply) => {
    reply.type('application/yaml; charset=utf-8').send(yaml)
  })
  app.get('/openapi.json', (_request, reply) => {
    reply.type('application/json; charset=utf-8').send(json)
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: CSP,
    theme: { title: 'Commit Status JSON API' },
    uiConfig: {
      deepLinking: true,
      persistAuthorization: false,
      displayRequestDuration: true,
      tryItOutEnabled: true,
    },
  })
}
