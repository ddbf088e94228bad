/**
 * Whether git may run although other accounts can write the configuration of a repository:
 * `trusted` if the server created it, or if an administrator trusts them; `checked` if it is
 * checked before git starts; `exempt` if it was imported before there was a rule about them.
 */
export type OwnerTrust = 'trusted' | 'checked' | 'exempt'
