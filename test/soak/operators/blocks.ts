import { readDocument } from '../../docs/machine.ts'

/** A block of code of the operator's guide. */
export interface Block {
  language: string
  code: string
  /** The file that the guide says it is, or null. */
  path: string | null
}

/** Says what else runs a block that this proof does not follow. */
const elsewhere = (reason: string) => ({ reason })

/** What the blocks under each heading of the guide are for, in order. */
export const BLOCKS = {
  Install: ['build', 'programs', 'install', 'unpack', 'settings'],
  systemd: ['unit', 'start'],
  'Several instances on one machine': ['instances'],
  Container: [elsewhere('there is no image registry: `container` builds the image and runs it')],
  'Users, repositories, tokens': ['first user', 'more users', 'groups'],
  'Required checks': ['rule'],
  'Who may report': ['reservation'],
  'A worker': [
    elsewhere('a service on machines of its own: `work` runs workers'),
    elsewhere('an example for other users of the machine: `guide` reads it as a shell does'),
    elsewhere('there is no image registry'),
  ],
  'Sign in with OpenID Connect': ['provider'],
  'Limited tokens': ['limited token'],
  nginx: ['install nginx', 'nginx', 'start nginx'],
  Caddy: ['install Caddy', 'Caddy', 'start Caddy'],
  PostgreSQL: ['database', 'grants', 'TLS to the database', 'to PostgreSQL', 'to SQLite'],
  'A standby': [elsewhere('`standby` runs these settings')],
  'Back up and restore': [
    'backup',
    'nightly',
    'backup unit',
    'backup timer',
    'start the timer',
    'practice',
    'another machine',
  ],
  Upgrade: ['upgrade', 'upgrade unpacked', 'go back'],
  Monitor: [
    'metrics',
    elsewhere('`monitoring` runs Prometheus with it'),
    elsewhere('`monitoring` has each alert fire'),
  ],
  'Audit log': ['events'],
  'A token leaked': ['revoke'],
  'An account leaked': ['lock', 'unlock', 'sessions', 'delete'],
  'An address is blocked': ['lift'],
  'The disk is full': ['prune'],
  'A repository is damaged': ['check', 'one repository'],
  'Refs are lost': ['compare refs'],
  'The folder of backups is damaged': ['verify'],
  'The database is damaged': ['replace the database'],
} as const

type Names = (typeof BLOCKS)[keyof typeof BLOCKS][number]
export type BlockName = Extract<Names, string>

/** Returns the blocks under each heading of the guide that has any, in order. */
export function blocksByHeading(): Map<string, Block[]> {
  const guide = readDocument('src/ops/README.md')
  const found = new Map<string, Block[]>()
  let [heading, prose] = ['', '']
  // Of blocks, prose and headings, what is between two fences is code.
  for (const [index, part] of guide.split(/^```/m).entries()) {
    if (index % 2 === 0) {
      heading = [...part.matchAll(/^#+ (.+)$/gm)].at(-1)?.[1] ?? heading
      prose = part
      continue
    }
    const [, language = '', code = ''] = /^(\w+)\n([\s\S]*)$/.exec(part) ?? []
    const path = [...prose.matchAll(/`(\/[\w./@-]+)`/g)].at(-1)?.[1] ?? null
    found.set(heading, [...(found.get(heading) ?? []), { language, code, path }])
  }
  return found
}

/** Returns a block of the guide. */
export function blockOf(name: BlockName): Block {
  for (const [heading, blocks] of blocksByHeading()) {
    const names: readonly unknown[] = Object.entries(BLOCKS).find(([key]) => key === heading)?.[1] ?? []
    const block = blocks[names.indexOf(name)]
    if (block) return block
  }
  throw new Error(`the guide has no block "${name}"`)
}
