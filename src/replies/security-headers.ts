import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import helmet from 'helmet'

/**
 * Sets headers that restrict pages to resources of this site, without inline scripts and styles.
 */
export function setSecurityHeaders(request: FastifyRequest, reply: FastifyReply): void {
  protect(request.raw, reply.raw, () => {})
}

/** Allows an inline style on the page that is sent, by its hash. */
export function allowStyle(reply: FastifyReply, style: string): void {
  const policy = String(reply.raw.getHeader('content-security-policy'))
  const source = `'sha256-${hash('sha256', style, 'base64')}'`
  reply.raw.setHeader(
    'content-security-policy',
    policy.replace("style-src 'self'", `style-src 'self' ${source}`),
  )
}

const protect = helmet({
  contentSecurityPolicy: {
    // The defaults upgrade requests to https, which a server on plain http does not support.
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", 'data:'],
      connectSrc: ["'self'"],
      baseUri: ["'none'"],
      formAction: ["'self'"],
      frameAncestors: ["'none'"],
    },
  },
  // The proxy that terminates TLS decides about HSTS.
  strictTransportSecurity: false,
  // Browsers ignore these two on plain http and log a warning.
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  // Set on every answer, not only on pages.
  xContentTypeOptions: false,
  referrerPolicy: { policy: 'same-origin' },
  xFrameOptions: { action: 'deny' },
})
