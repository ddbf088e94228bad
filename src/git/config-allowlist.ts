import { FIXED_SETTINGS } from './environment.ts'

/**
 * Returns whether a repository's own configuration may set the key. With an allowed key, no fetch, push, `log` or garbage
 * collection runs a program or opens a file that the repository's owner chose.
 *
 * Unknown keys are refused: git 2.42 added `gc.recentObjectsHook` and git 2.54 added `hook.*`, which settings of a single
 * call cannot override.
 *
 * @param key as `git config --list` prints it: section and name in lower case
 */
export function isAllowedKey(key: string): boolean {
  const [section = ''] = key.split('.', 1)
  const name = key.slice(key.lastIndexOf('.') + 1)
  const hasSubsection = section.length + name.length + 1 < key.length
  if (sections.has(section)) return true
  if (key.startsWith('receive.fsck.')) return name !== 'skiplist'
  return keys.has(hasSubsection ? `${section}.*.${name}` : key)
}

/** Sections that the server's git commands do not read, or that the environment of each call makes harmless. */
const sections = new Set(
  [
    // The server's own setting: see default-branch.ts.
    'commitstatus',
    // Commands that work on a checkout or a terminal. The server runs none of them, so their aliases, editors, tools,
    // drivers and filters never start. `FIXED_SETTINGS` stops pushes from updating the work tree.
    'add advice alias am apply author blame branch browser checkout clean clone color column commit committer',
    'completion diff difftool fastimport filter format fsck gitcvs gitweb grep gui guitool help i18n init instaweb',
    'interactive mailinfo mailmap man merge mergetool notes pager pretty pull push rebase replay rerere revert',
    'sendemail sequence showbranch sparse splitindex stash status submodule tag tar trailer user versionsort web',
    'worktree',
    // Fetching from other servers: remotes, transports, credentials. GIT_ALLOW_PROTOCOL allows no transport, and each
    // call sets the `http.*` keys that a server reads.
    'bundle credential credentialcache credentialstore fetch http imap promisor protocol remote remotes sideband ssh',
    'url',
    // git ignores this section in a repository's own configuration.
    'safe',
    // Other programs that store settings in a repository's configuration.
    'annex branchless cgit cola daemon delta forge gerrit git-bug git-p4 git-town git-town-branch gitbutler gitea',
    'gitflow github gitk gitlab gitolite gitolite-options gitreview gk hooks hub lfs machete magit multimailhook',
    'repo review secrets spr stgit svn svn-remote tgit tig transcrypt',
  ].flatMap((line) => line.split(' ')),
)

/** Allowed keys of the other sections. `*` stands for a subsection. */
const keys = new Set([
  ...Object.keys(FIXED_SETTINGS).map((key) => key.toLowerCase()),
  ...inSection(
    'core',
    'abbrev alternaterefsprefixes askpass autocrlf bare bigfilethreshold checkroundtripencoding checkstat commentchar',
    'commentstring commitgraph compression configlocktimeout createobject deltabasecachelimit editor eol excludesfile',
    'filemode filesreflocktimeout fscache fsmonitorhookversion fsync fsyncmethod fsyncobjectfiles gitproxy hidedotfiles',
    'ignorecase ignorestat lockfilepid logallrefupdates longpaths loosecompression maxtreedepth multipackindex notesref',
    'packedgitlimit packedgitwindowsize packedrefstimeout pager precomposeunicode prefersymlinkrefs preloadindex',
    'protecthfs protectntfs quotepath repositoryformatversion restrictinheritedhandles safecrlf sharedrepository',
    'sparsecheckout sparsecheckoutcone splitindex sshcommand symlinks trustctime unsetenvvars untrackedcache',
    'usebuiltinfsmonitor warnambiguousrefs whitespace worktree',
  ),
  ...inSection('attr', 'tree'),
  ...inSection(
    'bitmappseudomerge.*',
    'decay maxmerges pattern samplerate stablesize stablethreshold threshold',
  ),
  ...inSection(
    'commitgraph',
    'changedpaths changedpathsversion generationversion maxnewfilters readchangedpaths',
  ),
  ...inSection(
    'extensions',
    'compatobjectformat noop noop-v1 objectformat partialclone preciousobjects refstorage relativeworktrees',
    'submodulepathconfig worktreeconfig',
  ),
  ...inSection('feature', 'experimental manyfiles'),
  ...inSection('fsmonitor', 'allowremote socketdir'),
  ...inSection(
    'gc',
    'aggressivedepth aggressivewindow auto autodetach autopacklimit bigpackthreshold cruftpacks logexpiry maxcruftsize',
    'packrefs pruneexpire reflogexpire reflogexpireunreachable rerereresolved rerereunresolved worktreepruneexpire',
    'writecommitgraph',
  ),
  ...inSection('gc.*', 'reflogexpire reflogexpireunreachable'),
  ...inSection('gpg', 'format mintrustlevel'),
  ...inSection('gpg.*', 'allowedsignersfile defaultkeycommand program revocationfile'),
  ...inSection('index', 'recordendofindexentries recordoffsettable skiphash sparse threads version'),
  ...inSection(
    'log',
    'abbrevcommit date decorate diffmerges excludedecoration follow graphcolors initialdecorationset mailmap showroot',
    'showsignature',
  ),
  ...inSection('lsrefs', 'unborn'),
  ...inSection('maintenance', 'auto autodetach strategy'),
  ...inSection('maintenance.*', 'auto batchsize enabled schedule splitfactor'),
  ...inSection(
    'pack',
    'allowpackreuse compression deltacachelimit deltacachesize depth indexversion island islandcore packsizelimit',
    'preferbitmaptips readreverseindex threads usebitmapboundarytraversal usebitmaps usepathwalk usesparse window',
    'windowmemory writebitmaphashcache writebitmaplookuptable writebitmaps writereverseindex',
  ),
  ...inSection(
    'receive',
    'advertiseatomic advertisepushoptions autogc certnonceseed certnonceslop denydeletecurrent denydeletes',
    'denynonfastforwards fsckobjects hiderefs keepalive maxinputsize procreceiverefs shallowupdate unpacklimit',
    'updateserverinfo',
  ),
  ...inSection('reftable', 'blocksize geometricfactor indexobjects locktimeout restartinterval'),
  ...inSection(
    'repack',
    'cruftdepth cruftthreads cruftwindow cruftwindowmemory midxmustcontaincruft midxnewlayerthreshold midxsplitfactor',
    'packkeptobjects updateserverinfo usedeltabaseoffset usedeltaislands writebitmaps',
  ),
  ...inSection(
    'transfer',
    'advertiseobjectinfo advertisesid bundleuri credentialsinurl fsckobjects hiderefs unpacklimit',
  ),
  ...inSection('uploadarchive', 'allowunreachable'),
  ...inSection(
    'uploadpack',
    'advertisebundleuris allowanysha1inwant allowfilter allowreachablesha1inwant allowrefinwant allowsidebandall',
    'allowtipsha1inwant hiderefs keepalive',
  ),
  ...inSection('uploadpackfilter', 'allow'),
  ...inSection('uploadpackfilter.*', 'allow maxdepth'),
])

function inSection(section: string, ...names: string[]): string[] {
  return names.flatMap((line) => line.split(' ')).map((name) => `${section}.${name}`)
}
