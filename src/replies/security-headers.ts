import type { FastifyReply, FastifyRequest } from 'fastify'
import helmet from 'helmet'

/**
 * Sets headers that restrict pages to resources of this site, without inline scripts and styles.
 */
export function setSecurityHeaders(request: FastifyRequest, reply: FastifyReply): void {
  protect(request.raw, reply.raw, () => {})
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
