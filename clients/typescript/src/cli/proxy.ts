import { BlockList, isIP } from 'node:net'
import { say } from './terminal.ts'

/**
 * Sends the requests to a service through the proxy that the environment names, unless NO_PROXY
 * excepts the service. A wrong value must not end a build.
 */
export async function useProxy(env: NodeJS.ProcessEnv, service: string): Promise<void> {
  const names = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy']
  const name = names.find((name) => env[name])
  if (!name || !URL.canParse(service)) return
  const isExcepted = isExceptedBy(env.no_proxy || env.NO_PROXY || '', new URL(service))
  const { setGlobalProxyFromEnv }: Partial<typeof import('node:http')> = await import('node:http')
  if (!setGlobalProxyFromEnv) {
    if (env.NODE_USE_ENV_PROXY !== '1' && !isExcepted)
      say(`${name} is ignored before Node 24.14; Node 22.21 heeds it with NODE_USE_ENV_PROXY=1`)
    return
  }
  // Node's own reading of NO_PROXY knows neither CIDR nor the domain itself after a leading dot.
  const { NO_PROXY: _, no_proxy: __, ...proxies } = env
  try {
    setGlobalProxyFromEnv(isExcepted ? { ...proxies, NO_PROXY: '*' } : proxies)
  } catch {
    say(`${name} is ignored, since a proxy variable is not a URL`)
  }
}

/**
 * Returns whether a list like that of NO_PROXY contains the host of a URL, as curl reads it: `*`;
 * a domain, which stands for its subdomains too, also after `.` or `*.`; an address; a range of
 * addresses in CIDR notation. Each may have a port. IPv6 may be in brackets.
 */
export function isExceptedBy(list: string, { hostname, port, protocol }: URL): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const hostPort = port || (protocol === 'https:' ? '443' : '80')
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => {
      const { name, bits, entryPort } = splitEntry(entry)
      if (entryPort !== undefined && entryPort !== hostPort) return false
      if (name === '*') return true
      if (isIP(name) !== 0) return isIP(host) !== 0 && isInRange(host, name, bits)
      const domain = name.replace(/^\*?\./, '').replace(/\.$/, '')
      return domain !== '' && (host === domain || host.endsWith(`.${domain}`))
    })
}

function splitEntry(entry: string) {
  const [, bracketed, bits = '', port] = /^\[([^\]]*)\](?:\/(\d+))?(?::(\d+))?$/.exec(entry) ?? []
  if (bracketed !== undefined) return { name: bracketed, bits, entryPort: port }
  const [name = '', rest = ''] = entry.split('/')
  // IPv6 without brackets has no port.
  const [, host = name, hostPort] = isIP(name) === 0 ? (/^([^:]*):(\d+)$/.exec(name) ?? []) : []
  const [size = '', sizePort = hostPort] = rest.split(':')
  return { name: host, bits: size, entryPort: sizePort }
}

function isInRange(host: string, address: string, bits: string): boolean {
  const familyOf = (ip: string) => (isIP(ip) === 4 ? 'ipv4' : 'ipv6')
  const range = new BlockList()
  const longest = isIP(address) === 4 ? 32 : 128
  const length = bits === '' ? longest : Number(bits)
  if (!(length <= longest)) return false
  range.addSubnet(address, length, familyOf(address))
  return range.check(host, familyOf(host))
}
