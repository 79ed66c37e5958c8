#!/bin/sh
# A credential plugin; its first argument selects the answer.
version=$(expr "$KUBERNETES_EXEC_INFO" : '.*"apiVersion":"\([^"]*\)"')
answer() {
    echo "{\"kind\": \"ExecCredential\", \"apiVersion\": \"$version\", \"status\": {\"token\": \"$1\"$2}}"
}
case "$1" in
info) answer "$(printf %s "$KUBERNETES_EXEC_INFO" | base64 | tr -d '\n')" ;;
environment) answer "$#-$4-${PROFILE-unset}-$LIMIT-$SINCE-${NOTHING-unset}" ;;
yaml) printf 'kind: ExecCredential\napiVersion: %s\nstatus:\n  token: good\n  expirationTimestamp: null\n' "$version" ;;
nulls) answer good ', "expirationTimestamp": null, "clientCertificateData": null, "clientKeyData": null' ;;
zero) answer good ', "expirationTimestamp": "0001-01-01T00:00:00Z"' ;;
last) answer good ', "expirationTimestamp": "9999-12-31T23:59:59-12:00"' ;;
year-zero) answer good ', "expirationTimestamp": "0000-01-01T00:00:00+12:00"' ;;
fraction) answer good ', "expirationTimestamp": "2999-01-01T00:00:00.99999999999999999999Z"' ;;
esac
