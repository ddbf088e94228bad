import { FIXED_SETTINGS } from './environment.ts'

/**
 * Whether a repository's own configuration may hold the key: nothing that serving, fetching, pushing, `log` or the
 * garbage collection after a push reads by that name runs a program or opens a file of the repository owner's choice.
 *
 * What is not listed is refused, whatever it is: git 2.42 came with `gc.recentObjectsHook` and git 2.54 with `hook.*`,
 * and settings of a single call can switch off neither.
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

/** Sections of which nothing is read here, or nothing but in ways that the environment of each call closes. */
const sections = new Set(
  [
    // Commands that work on a checkout or at a terminal. None is run here: their aliases, editors, tools, diff and merge
    // drivers and filters never start. `FIXED_SETTINGS` keeps pushes away from the work tree.
    'add advice alias am apply author blame branch browser checkout clean clone color column commit committer',
    'completion diff difftool fastimport filter format fsck gitcvs gitweb grep gui guitool help i18n init instaweb',
    'interactive mailinfo mailmap man merge mergetool notes pager pretty pull push rebase replay rerere revert',
    'sendemail sequence showbranch sparse splitindex stash status submodule tag tar trailer user versionsort web',
    'worktree',
    // Fetching from somewhere else: remotes, transports, credentials. GIT_ALLOW_PROTOCOL allows no transport, and what a
    // server's own `http.*` keys say is said by each call.
    'bundle credential credentialcache credentialstore fetch http imap promisor protocol remote remotes sideband ssh',
    'url',
    // Heard only in the configuration of the machine, the user or the call.
    'safe',
    // Other programs that keep settings in a repository's configuration.
    'annex branchless cgit cola daemon delta forge gerrit git-bug git-p4 git-town git-town-branch gitbutler gitea',
    'gitflow github gitk gitlab gitolite gitolite-options gitreview gk hooks hub lfs machete magit multimailhook',
    'repo review secrets spr stgit svn svn-remote tgit tig transcrypt',
  ].flatMap((line) => line.split(' ')),
)

/** Keys of the sections that are read here. `*` stands for a subsection. */
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
