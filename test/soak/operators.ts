import { execFileSync } from 'node:child_process'
import { appendFileSync, chmodSync, copyFileSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import tap, { type Test } from 'tap'
import { codeBlock } from '../docs/machine.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { BLOCKS, type BlockName, blockOf, blocksByHeading } from './operators/blocks.ts'
import { bootDebian, type Debian, makeDebian, runIn } from './parts/debian.ts'
import { run } from './parts/programs.ts'

/**
 * Follows the operator's guide on Debians of their own, which have nothing of this project but the
 * package: each block of commands runs, and each file is saved, as it stands. Wants to be root.
 */
const SUBSTITUTIONS = [
  'Debian: debootstrap, with the systemd, dbus and cron that servers have',
  'mirror of Debian: packages are downloaded before, since machines have no network but their loopback',
  'copy from one machine to another (scp, rsync): from root folder to root folder',
  'DNS: the names below example.org are in /etc/hosts, and lead to the loopback',
  'a CA: certificates of one made here, which the machines trust; Caddy makes its own, by `local_certs`',
  "Keycloak: the tests' provider, at its address",
  'the beginning of a leaked token: that of one made here',
]
/** The release from which machines are upgraded. */
const OLDER = '42cfb45a'
const SERVER = ['systemd-sysv', 'dbus', 'cron']
const HOSTS = ['status.example.org', 'id.example.org', 'db.example.org']
const GUIDE = 'src/ops/README.md'
const root = resolve(import.meta.dirname, '../..')

tap.setTimeout(3_600_000)
for (const line of SUBSTITUTIONS) tap.comment(line)

/** Clones a commit of this project, and builds its package by its own guide. @returns the folder */
function build(t: Test, commit: string): string {
  const folder = temporaryFolder(t)
  execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', root, folder])
  execFileSync('git', ['checkout', '--quiet', commit], { cwd: folder })
  execFileSync('bash', ['-euc', codeBlock(readFileSync(join(folder, GUIDE), 'utf8'), 'npm run package')], {
    cwd: folder,
    env: { ...process.env, npm_config_prefer_offline: 'true' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return join(folder, 'dist')
}

/** A CA, and one certificate for all names. @returns the folder of ca.pem, site.pem and site.key */
function makeCertificates(t: Test): string {
  const folder = temporaryFolder(t)
  const names = HOSTS.map((name) => `DNS:${name}`).join(',')
  execFileSync(
    'bash',
    [
      '-euc',
      `
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=company -keyout ca.key -out ca.pem
    openssl req -newkey rsa:2048 -nodes -subj /CN=${HOSTS[0]} -keyout site.key -out site.csr
    openssl x509 -req -in site.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \\
      -extfile <(echo subjectAltName=${names}) -out site.pem
    openssl req -newkey rsa:2048 -nodes -subj /CN=commit-status -keyout client.key -out client.csr
    openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -days 2 -out client.pem`,
    ],
    { cwd: folder, stdio: 'ignore' },
  )
  return folder
}

/** Somebody who administers a machine, with nothing but the guide. */
interface Operator extends Debian {
  /** Runs a block of the guide as it stands, after other lines. Returns what it prints. */
  run(name: BlockName, before?: string): string
  /** Saves a block of the guide where the guide says, or adds to it before. */
  save(name: BlockName, before?: string): void
}

const followed = new Set<BlockName>()

/** Returns the code of a block, which its caller uses as it stands. */
function follow(name: BlockName): string {
  tap.comment(name)
  followed.add(name)
  return blockOf(name).code
}

async function operate(t: Test, folder: string): Promise<Operator> {
  const debian = await bootDebian(t, folder)
  const functions = new Set(blockOf('first user').code.match(/^admin\(\) \{.*\}\n/m))
  return {
    ...debian,
    sh: (lines) => debian.sh([...functions, lines].join('')),
    run(name, before = '') {
      const code = follow(name)
      for (const line of code.match(/^\w+\(\) \{.*\}\n/gm) ?? []) functions.add(line)
      try {
        return debian.sh([...functions, before, code].join(''))
      } catch (error) {
        t.comment(debian.sh("journalctl --unit='commit-status*' --lines=20 --output=cat --no-pager"))
        throw error
      }
    },
    save(name, before = '') {
      const code = follow(name)
      const { path } = blockOf(name)
      if (!path) throw new Error(`the guide does not say where "${name}" goes`)
      writeFileSync(join(folder, path), before + code)
    },
  }
}

/** Has people of the company do something in the network of a machine, with its names. */
function company({ root: folder, init }: Debian, what: string, ca: string): void {
  const command = 'mount --bind "$HOSTS" /etc/hosts && exec "$NODE" test/soak/operators/company.ts "$WHAT"'
  execFileSync('nsenter', ['--target', init, '--net', 'unshare', '--mount', 'sh', '-c', command], {
    cwd: root,
    env: {
      PATH: process.env.PATH,
      HOSTS: join(folder, 'etc/hosts'),
      NODE: process.execPath,
      WHAT: what,
      NODE_EXTRA_CA_CERTS: ca,
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
}

/** What every machine of this company has: its names, its CA, and the programs of the guide. */
function makeBase(t: Test, ca: string): string {
  const base = makeDebian(t, SERVER)
  runIn(base, blockOf('programs').code)
  followed.add('programs')
  const later = [...blocksByHeading().values()]
    .flat()
    .flatMap(({ code }) => code.match(/^apt-get .*$/gm) ?? [])
  for (const line of later) runIn(base, `${line} --download-only`)
  appendFileSync(join(base, 'etc/hosts'), HOSTS.map((name) => `127.0.0.1 ${name}\n`).join(''))
  copyFileSync(ca, join(base, 'usr/local/share/ca-certificates/company.crt'))
  copyFileSync(ca, join(base, 'etc/ssl/company-ca.pem'))
  runIn(base, 'update-ca-certificates')
  return base
}

function copyOf(t: Test, base: string): string {
  const folder = temporaryFolder(t)
  run('cp', '--archive', `${base}/.`, folder)
  chmodSync(folder, 0o755)
  return folder
}

/** Copies what `npm run package` has written to the folder in which root begins. */
function deliver(dist: string, folder: string): void {
  for (const file of globSync('{*-linux-x64.tgz,SHA256SUMS}', { cwd: dist }))
    copyFileSync(join(dist, file), join(folder, 'root', file))
}

const certificates = makeCertificates(tap)
const ca = join(certificates, 'ca.pem')
const base = makeBase(tap, ca)
const dist = build(tap, 'HEAD')
followed.add('build')
const machine = copyOf(tap, base)
deliver(dist, machine)
const first = await operate(tap, machine)
const SITE = 'https://status.example.org'
const LOCAL = 'http://127.0.0.1:3000'

/** A commit in `alice/rocket`, and what was reported on it. */
class Commit {
  readonly #token: string
  readonly #sha: string
  /** Contexts of reports that were acknowledged. */
  readonly #reported: string[] = []

  /** Pushes the commit. */
  constructor({ sh }: Operator, origin: string, token: string) {
    const remote = `${origin.replace('://', `://alice:${token}@`)}/alice/rocket.git`
    sh(`git init --quiet rocket; cd rocket
      git -c user.name=alice -c user.email=alice@example.org commit --quiet --allow-empty --message first
      git push --quiet ${remote} HEAD:refs/heads/topic`)
    this.#token = token
    this.#sha = sh('git -C rocket rev-parse HEAD').trim()
  }

  report({ sh }: Operator, origin: string, context: string): void {
    const headers = `--header 'Authorization: Bearer ${this.#token}' --header 'Content-Type: application/json'`
    const body = `--data '{"state":"success","context":"${context}"}'`
    sh(`curl --fail --silent --show-error --output /dev/null ${headers} ${body} \
      ${origin}/api/v1/repos/alice/rocket/statuses/${this.#sha}`)
    this.#reported.push(context)
  }

  /** Expects that a machine has the branch, and every report. */
  expectAt(t: Test, { sh }: Operator, origin: string): void {
    const path = `/api/v1/repos/alice/rocket/commits/${this.#sha}/statuses`
    const { statuses }: { statuses: { context: string }[] } = JSON.parse(
      sh(`curl --fail --silent --show-error ${origin}${path}`),
    )
    t.same(statuses.map(({ context }) => context).sort(), [...this.#reported].sort(), 'no report is lost')
    t.match(sh(`git ls-remote ${origin}/alice/rocket.git refs/heads/topic`), this.#sha)
  }
}

/** Waits until the server of a machine listens, as the guide does. */
function untilReady({ sh }: Operator): void {
  sh(blockOf('start').code.split('\n').at(-2) ?? '')
}

let commit: Commit

tap.test('install, and the first user', async (t) => {
  first.run('install')
  first.save('settings')
  first.save('unit')
  t.match(first.run('start'), /ready/)
  t.equal(first.sh('systemd-analyze verify commit-status.service 2>&1 | grep commit-status || true'), '')
  t.equal(first.sh('stat --format "%U %a" /etc/commit-status.env').trim(), 'root 640')
  const token = first.run('first user').trim().split('\n').at(-1) ?? ''
  t.match(first.run('more users'), /alice\/rocket|CI of rocket/)
  first.run('groups')
  commit = new Commit(first, LOCAL, token)
  commit.report(first, LOCAL, 'first')
})

tap.test('TLS by Caddy, then by nginx', async (t) => {
  for (const name of ['ca.pem', 'ca.key']) copyFileSync(join(certificates, name), join(machine, 'srv', name))
  first.sh('chmod 644 /srv/ca.*')
  first.run('install Caddy')
  const authority = 'root {\ncert /srv/ca.pem\nkey /srv/ca.key\n}'
  first.save('Caddy', `{\nlocal_certs\npki {\nca local {\n${authority}\n}\n}\n}\n`)
  t.match(first.run('start Caddy'), /ready/)
  company(first, 'password', ca)
  first.sh('systemctl disable --now caddy')

  for (const end of ['pem', 'key'])
    copyFileSync(join(certificates, `site.${end}`), join(machine, `etc/ssl/status.example.org.${end}`))
  first.run('install nginx')
  first.save('nginx')
  t.match(first.run('start nginx'), /ready/)
  company(first, 'password', ca)

  commit.report(first, SITE, 'through nginx')
  commit.expectAt(t, first, SITE)
})

tap.test('sign-in with the company', async (t) => {
  writeFileSync(
    join(machine, 'etc/nginx/conf.d/company.conf'),
    `server {
      listen 443 ssl;
      server_name id.example.org;
      ssl_certificate /etc/ssl/status.example.org.pem;
      ssl_certificate_key /etc/ssl/status.example.org.key;
      location /realms/staff/ {
        proxy_pass http://127.0.0.1:9000/;
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-Proto $scheme;
      }
    }`,
  )
  first.sh('systemctl reload nginx')
  // What the guide says of a private CA.
  appendFileSync(join(machine, 'etc/commit-status.env'), 'NODE_EXTRA_CA_CERTS=/etc/ssl/company-ca.pem\n')
  first.run('provider')
  untilReady(first)
  company(first, 'company', ca)
  t.match(first.sh('admin user list'), /^dora /m)
  t.notMatch(first.sh('admin user list'), /^eve /m)
})

tap.test('rules, tokens, events and incidents', async (t) => {
  first.run('rule')
  first.run('reservation')
  t.match(first.run('limited token'), /^cst_|^\w+$/m)
  t.match(first.run('metrics'), /^commit_status_build_info/m)
  t.match(first.run('events'), /rule\.set/)
  const refused = 'curl --silent --output /dev/null --header "Authorization: Bearer wrong"'
  const path = `${LOCAL}/api/v1/repos/alice/rocket/commits/${'0'.repeat(40)}/statuses`
  first.sh(`for i in $(seq 31); do ${refused} --header "X-Forwarded-For: 192.0.2.1" ${path}; done`)
  t.match(first.run('lift'), /192\.0\.2\.1/)
  first.run('prune')
  first.run('check')
})

tap.test('backups, and a restore on another machine', async (t) => {
  first.run('backup')
  first.save('nightly')
  const [, command = ''] = /^(?:[\d*]+ ){5}commit-status (.*)$/m.exec(blockOf('nightly').code) ?? []
  first.sh(`su commit-status --shell /bin/sh --command ${JSON.stringify(command)}`)
  first.save('backup unit')
  first.save('backup timer')
  first.run('start the timer')
  t.match(first.sh('systemctl list-timers --all'), /commit-status-backup\.timer/)
  first.run('practice')
  first.run('compare refs')
  first.run('verify')
  first.run('one repository')
  untilReady(first)
  commit.expectAt(t, first, SITE)

  const other = copyOf(t, base)
  deliver(dist, other)
  // So that numbers of accounts differ.
  runIn(other, 'useradd --system another')
  const second = await operate(t, other)
  second.run('unpack')
  second.sh(blockOf('install').code.replace(/^(?:sha256sum|npm) .*\n/gm, ''))
  second.save('unit')
  run('cp', '--archive', join(machine, 'etc/commit-status.env'), join(other, 'etc'))
  second.sh(
    'chown root:commit-status /etc/commit-status.env; sed --in-place /^OIDC_/d /etc/commit-status.env',
  )
  second.run('start')
  run('cp', '--archive', join(machine, 'var/backups/commit-status'), join(other, 'var/backups'))
  second.run('another machine')
  untilReady(second)
  commit.expectAt(t, second, LOCAL)
  const owners = second.sh('find /var/backups/commit-status /var/lib/commit-status ! -user commit-status')
  t.equal(owners, '')
  t.match(second.sh('admin user list'), /^dora /m)
  second.run('replace the database')
  untilReady(second)
  commit.expectAt(t, second, LOCAL)
})

tap.test('an upgrade from 0.4.0, back, and again', async (t) => {
  const older = run('git', 'show', `${OLDER}:${GUIDE}`)
  const olderDist = build(t, OLDER)
  const place = copyOf(t, base)
  deliver(olderDist, place)
  const third = await operate(t, place)
  third.sh(codeBlock(older, 'npm install --global'))
  writeFileSync(join(place, 'etc/commit-status.env'), codeBlock(older, 'METRICS_TOKEN='))
  const unit = codeBlock(older, '[Service]')
  const saveUnit = (text: string) =>
    writeFileSync(join(place, 'etc/systemd/system/commit-status.service'), text)
  saveUnit(unit.replace('AF_UNIX', 'AF_UNIX AF_NETLINK'))
  third.sh(codeBlock(older, 'systemctl enable --now commit-status\n'))
  const token = third.sh(codeBlock(older, 'admin repo create alice/rocket')).trim().split('\n').at(-1) ?? ''
  const before = new Commit(third, LOCAL, token)
  before.report(third, LOCAL, 'before')

  deliver(dist, place)
  saveUnit(unit)
  third.sh('systemctl daemon-reload')
  third.run('upgrade')
  untilReady(third)
  before.expectAt(t, third, LOCAL)

  deliver(olderDist, place)
  third.sh(
    `rm --recursive --force /opt/*; ${codeBlock(older, 'tar --extract')}mv /opt/* /opt/commit-status-server-older`,
  )
  saveUnit(unit.replace('AF_UNIX', 'AF_UNIX AF_NETLINK'))
  third.sh('systemctl daemon-reload')
  third.run('go back', 'OLDER=older\n')
  untilReady(third)
  t.match(third.sh('readlink --canonicalize /usr/local/bin/commit-status-server'), /-older\//)
  before.expectAt(t, third, LOCAL)
  before.report(third, LOCAL, 'on the older one again')

  deliver(dist, place)
  third.run('upgrade unpacked')
  untilReady(third)
  t.notMatch(third.sh('readlink --canonicalize /usr/local/bin/commit-status-server'), /-older\//)
  before.expectAt(t, third, LOCAL)
})

tap.test('two instances on PostgreSQL, and back to SQLite', async (t) => {
  first.run('database')
  first.run('to PostgreSQL')
  untilReady(first)
  t.match(first.sh('cat /etc/commit-status.env'), /^DATABASE_URL=/m)
  t.match(first.sh("sudo -u postgres psql -tc 'select context from statuses' commit-status"), 'first')
  commit.expectAt(t, first, SITE)
  commit.report(first, SITE, 'on PostgreSQL')

  first.run('instances')
  untilReady(first)
  first.sh(
    "sed --in-place 's/# server 127/server 127/' /etc/nginx/conf.d/commit-status.conf; systemctl reload nginx",
  )
  for (const port of [3000, 3001]) {
    untilReady({ ...first, sh: (lines) => first.sh(lines.replace('3000', `${port}`)) })
    commit.report(first, `http://127.0.0.1:${port}`, `on ${port}`)
  }
  for (const port of [3000, 3001]) {
    first.sh(`systemctl stop commit-status@${port}`)
    commit.report(first, SITE, `without ${port}`)
    first.sh(`systemctl start commit-status@${port}`)
    untilReady({ ...first, sh: (lines) => first.sh(lines.replace('3000', `${port}`)) })
  }
  commit.expectAt(t, first, SITE)

  const psql = (lines: string) =>
    first.sh(`sudo -u postgres psql --quiet --set ON_ERROR_STOP=1 commit-status <<'END'\n${lines}END`)
  psql('create role owner;\n')
  psql(follow('grants'))
  for (const [file, name] of [
    ['site', 'server'],
    ['client', 'commit-status'],
  ] as const)
    for (const end of ['pem', 'key'])
      copyFileSync(
        join(certificates, `${file}.${end}`),
        join(machine, `etc/ssl/${name === 'server' ? 'db' : name}.${end}`),
      )
  copyFileSync(ca, join(machine, 'etc/ssl/db-ca.pem'))
  first.sh(`chmod 644 /etc/ssl/db-ca.pem; chown postgres /etc/ssl/db.*; chown commit-status /etc/ssl/commit-status.*
    chmod 600 /etc/ssl/db.* /etc/ssl/commit-status.*`)
  psql(`alter system set ssl = on; alter system set ssl_cert_file = '/etc/ssl/db.pem';
    alter system set ssl_key_file = '/etc/ssl/db.key'; alter system set ssl_ca_file = '/etc/ssl/db-ca.pem';\n`)
  first.sh('systemctl restart postgresql')
  const [withPassword = '', withCertificate = ''] = follow('TLS to the database').split('\n')
  for (const line of [withPassword, withCertificate]) {
    if (line === withCertificate)
      first.sh(`sed --in-place '1i hostssl commit-status commit-status all cert' /etc/postgresql/*/main/pg_hba.conf
        systemctl reload postgresql`)
    first.sh(
      `sed --in-place /^DATABASE_URL=/d /etc/commit-status.env; echo '${line}' >>/etc/commit-status.env`,
    )
    t.match(first.sh('admin user list'), /^alice /m)
  }

  first.sh('systemctl disable --now commit-status@3000 commit-status@3001')
  first.run('start')
  first.run('to SQLite')
  untilReady(first)
  t.notMatch(first.sh('cat /etc/commit-status.env'), /^DATABASE_URL/m)
  commit.expectAt(t, first, LOCAL)
})

tap.test('a leaked token, and a leaked account', async (t) => {
  const create = (name: string) => first.sh(`admin token create alice --name ${name}`).trim()
  writeFileSync(join(machine, 'root/leaked.txt'), create('text'))
  const beginning = create('beginning').slice(0, 'cst_4fG7hJ'.length)
  create('nightly')
  first.sh(follow('revoke').replace('cst_4fG7hJ', beginning))
  t.notMatch(first.sh('admin token list alice'), /text|beginning|nightly/)
  t.match(first.run('lock'), /CI of rocket/)
  for (const name of ['unlock', 'sessions', 'delete'] as const) first.run(name)
})

tap.test('every block was followed, or is left to another proof', async (t) => {
  const names = Object.values(BLOCKS).flatMap((blocks) => blocks.filter((name) => typeof name === 'string'))
  t.same(
    names.filter((name) => !followed.has(name)),
    [],
  )
})
