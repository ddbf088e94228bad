import type { FastifyReply, FastifyRequest } from 'fastify'
import helmet from 'helmet'

/** What a browser may do with a page: load what comes from here, and run no script or style within the page itself. */
export function setSecurityHeaders(request: FastifyRequest, reply: FastifyReply): void {
  protect(request.raw, reply.raw, () => {})
}

const protect = helmet({
  contentSecurityPolicy: {
    // The defaults send browsers to https, where a server on plain http has nothing.
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
  // Whether there is https, and for how long, is for the proxy in front to say.
  strictTransportSecurity: false,
  // Browsers ignore these two on plain http, and complain.
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  // Every answer carries it, not only pages.
  xContentTypeOptions: false,
  referrerPolicy: { policy: 'same-origin' },
  xFrameOptions: { action: 'deny' },
})
