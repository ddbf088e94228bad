import type { Store } from '../../store/store.ts'

/**
 * The functions of the store that pages use. Those that write take the change of who has sent a
 * form, except `findOrCreate`, which is for somebody who has just shown who it is, and `takePlaces`,
 * by which the server gives an id to no repository.
 */
export type PageStore = Pick<
  Store,
  'remote' | 'matrix' | 'listing' | 'listTips' | 'usedTokens' | 'versions'
> & {
  auditLog: Pick<Store['auditLog'], 'latest' | 'latestOf'>
  collaborators: Pick<Store['collaborators'], 'list' | 'set'>
  groups: Pick<Store['groups'], 'administeredBy' | 'find'>
  members: Pick<Store['members'], 'list' | 'set'>
  pushes: Pick<Store['pushes'], 'listUnchecked'>
  repositories: Pick<
    Store['repositories'],
    | 'createAll'
    | 'delete'
    | 'folder'
    | 'get'
    | 'list'
    | 'recordDefaultBranch'
    | 'recordFollowing'
    | 'rename'
    | 'setVisibility'
  >
  repositoryFolders: Pick<Store['repositoryFolders'], 'takePlaces'>
  reservations: Pick<Store['reservations'], 'list' | 'listUnable' | 'set'>
  reservedNames: Pick<Store['reservedNames'], 'list' | 'release'>
  rules: Pick<Store['rules'], 'load' | 'remove' | 'set'>
  sessions: Pick<Store['sessions'], 'endOthers' | 'endOwn' | 'list'>
  statuses: Pick<Store['statuses'], 'hasAny' | 'listResults' | 'listWithReporters' | 'requestRun'>
  summaries: Pick<Store['summaries'], 'countByState' | 'findState' | 'list' | 'listStates' | 'reportedIn'>
  tokens: Pick<Store['tokens'], 'createOwn' | 'list' | 'revoke' | 'rotate'>
  users: Pick<Store['users'], 'any' | 'find' | 'findOrCreate' | 'get'>
}
